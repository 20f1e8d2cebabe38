/* Input: a byte that says in which pieces to read, then what an interpreter says. */
#include "core/kernel_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool cond)
{
	if (!cond)
		abort();
}

static void check_image(const struct kernel_image *i)
{
	bool is_png = strcmp(i->mime, "image/png") == 0;

	insist(i->size > 0 && i->size <= KERNEL_IMAGE_MAX);
	insist(is_png || strcmp(i->mime, "image/jpeg") == 0);
	insist(i->data[0] == (is_png ? 0x89 : 0xff));
}

static void check_reply(const struct kernel_reply *r)
{
	insist(r->outcome < KERNEL_DIED && r->number > 0 && r->n_images <= KERNEL_IMAGES_MAX);
	insist(!r->result.data || strlen(r->result.data) == r->result.size);
	insist(!r->traceback.data || strlen(r->traceback.data) == r->traceback.size);
	for (size_t i = 0; i < r->n_images; i++)
		check_image(&r->images[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel_reader r = { 0 };
	size_t step = size ? data[0] : 0;
	int word = 0;

	for (size_t at = 1; at < size && word >= 0;) {
		size_t n = step && step < size - at ? step : size - at;
		size_t taken = 0;

		word = kernel_reader_feed(&r, data + at, n, &taken);
		insist(word < 0 || (taken > 0 && taken <= n));
		if (word == KERNEL_WORD_DONE) {
			check_reply(&r.reply);
			kernel_reply_fini(&r.reply);
		}
		at += taken;
	}
	if (word < 0) {
		size_t taken = 0;

		insist(word == -EBADMSG && kernel_reader_feed(&r, data, size, &taken) == -EBADMSG);
	}
	kernel_reader_fini(&r);
	return 0;
}
