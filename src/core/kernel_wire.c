#include "core/kernel_wire.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/lister.h"
#include "core/utf8.h"
#include "ipc/cur.h"

static const char *const outcomes[] = { "ok", "error", "interrupted", "died" };

const char *kernel_outcome_name(enum kernel_outcome o)
{
	return outcomes[o];
}

void kernel_reply_fini(struct kernel_reply *r)
{
	struct kernel_text *texts[] = { &r->result, &r->error, &r->traceback, &r->warning };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(texts[i]->data);
	for (size_t i = 0; i < r->n_images; i++)
		free(r->images[i].data);
	inventory_fini(&r->listing);
	*r = (struct kernel_reply){ 0 };
}

/* --- the fields of what was done --- */

static int take_outcome(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	for (int i = KERNEL_OK; i < KERNEL_DIED; i++) {
		if (strlen(outcomes[i]) == size && memcmp(outcomes[i], data, size) == 0) {
			r->outcome = (enum kernel_outcome)i;
			return 0;
		}
	}
	return -EBADMSG;
}

static int parse_number(const uint8_t *data, size_t size, uint64_t max, uint64_t *ret)
{
	char text[24] = "";

	if (size >= sizeof(text))
		return -EBADMSG;
	memcpy(text, data, size);
	return str_parse_u64(text, max, ret) < 0 ? -EBADMSG : 0;
}

static int take_number(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	uint64_t number = 0;

	if (parse_number(data, size, UINT32_MAX, &number) < 0)
		return -EBADMSG;
	r->number = (uint32_t)number;
	return 0;
}

static int take_uncut_size(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return parse_number(data, size, INT64_MAX, &r->uncut_size);
}

static int take_cpu(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return parse_number(data, size, INT64_MAX, &r->cpu_us);
}

static int take_images_cut(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return parse_number(data, size, INT64_MAX, &r->n_images_cut);
}

static int take_text(struct kernel_text *text, const uint8_t *data, size_t size)
{
	size_t tail = 0;

	if (text->data || memchr(data, '\0', size) || utf8_span(data, size, &tail) != size)
		return -EBADMSG;
	text->data = xcalloc(1, size + 1);
	memcpy(text->data, data, size);
	text->size = size;
	return 0;
}

static int take_result(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return take_text(&r->result, data, size);
}

static int take_error(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return take_text(&r->error, data, size);
}

static int take_traceback(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return take_text(&r->traceback, data, size);
}

static int take_warning(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	return take_text(&r->warning, data, size);
}

static int take_listing(struct kernel_reply *r, const uint8_t *data, size_t size)
{
	struct cur c;

	if (r->has_listing)
		return -EBADMSG;
	cur_init(&c, data, size);
	if (inventory_get(&r->listing, &c) < 0)
		return -EBADMSG;
	lister_leave_out_unnamed(&r->listing);
	r->has_listing = true;
	return 0;
}

static const struct {
	char kind;
	int (*take)(struct kernel_reply *r, const uint8_t *data, size_t size);
} fields[] = {
	{ 'o', take_outcome },
	{ 'n', take_number },
	{ 'r', take_result },
	{ 'e', take_error },
	{ 't', take_traceback },
	{ 'w', take_warning },
	{ 'c', take_uncut_size },
	{ 'u', take_cpu },
	{ 'i', take_images_cut },
	{ 'L', take_listing },
};

static int take_field(struct kernel_reply *r, uint8_t kind, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i].kind == (char)kind)
			return fields[i].take(r, data, size);
	}
	return -EBADMSG;
}

static uint32_t u32_at(const uint8_t *data)
{
	uint32_t v;

	memcpy(&v, data, sizeof(v));
	return le32toh(v);
}

static int take_done(struct kernel_reader *r)
{
	const uint8_t *at = r->body;

	if (r->size == 0)
		return -EBADMSG;
	for (const uint8_t *end = at + r->size; at < end;) {
		if (end - at < 5 || u32_at(at + 1) > (size_t)(end - at) - 5)
			return -EBADMSG;
		size_t size = u32_at(at + 1);
		if (take_field(&r->reply, at[0], at + 5, size) < 0)
			return -EBADMSG;
		at += 5 + size;
	}
	return r->reply.number == 0 ? -EBADMSG : KERNEL_WORD_DONE;
}

/* --- frames --- */

static int take_ready(struct kernel_reader *r)
{
	(void)r; /* nobody asks for the version yet */
	return KERNEL_WORD_READY;
}

/* What is shown as an image begins as one. */
static const struct {
	const char *mime;
	const char *start;
} forms[] = {
	{ "image/png", "\x89PNG\r\n\x1a\n" },
	{ "image/jpeg", "\xff\xd8\xff" },
};

static const char *mime_of(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t n = strlen(forms[i].start);

		if (size >= n && memcmp(data, forms[i].start, n) == 0)
			return forms[i].mime;
	}
	return NULL;
}

static int take_image(struct kernel_reader *r)
{
	struct kernel_reply *reply = &r->reply;
	size_t total = r->size;

	for (size_t i = 0; i < reply->n_images; i++)
		total += reply->images[i].size;
	const char *mime = mime_of(r->body, r->size);
	if (reply->n_images == KERNEL_IMAGES_MAX || total > KERNEL_IMAGE_MAX || !mime)
		return -EBADMSG;
	reply->images[reply->n_images++] = (struct kernel_image){ mime, r->body, r->size };
	r->body = NULL;
	r->room = 0;
	return KERNEL_WORD_NONE;
}

static const struct kind {
	char kind;
	uint32_t max;
	int (*take)(struct kernel_reader *r);
} kinds[] = {
	{ 'R', KERNEL_READY_MAX, take_ready },
	{ 'I', KERNEL_IMAGE_MAX, take_image },
	{ 'D', KERNEL_DONE_MAX, take_done },
};

static const struct kind *kind_of(const struct kernel_reader *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].kind == (char)r->head[0])
			return &kinds[i];
	}
	return NULL;
}

/* Memory comes with the bytes, not with what a head announces. */
static void grow(struct kernel_reader *r, size_t needed)
{
	size_t room = r->room ? r->room : 4096;

	if (needed <= r->room)
		return;
	while (room < needed)
		room *= 2;
	uint8_t *body = xcalloc(1, room);
	if (r->n_body > 0)
		memcpy(body, r->body, r->n_body);
	free(r->body);
	r->body = body;
	r->room = room;
}

static size_t take_head(struct kernel_reader *r, const uint8_t *data, size_t size)
{
	size_t n = sizeof(r->head) - r->n_head < size ? sizeof(r->head) - r->n_head : size;

	memcpy(r->head + r->n_head, data, n);
	r->n_head += n;
	if (r->n_head == sizeof(r->head)) {
		const struct kind *kind = kind_of(r);

		r->size = u32_at(r->head + 1);
		r->is_broken = !kind || r->size > kind->max;
	}
	return n;
}

static size_t take_body(struct kernel_reader *r, const uint8_t *data, size_t size)
{
	size_t n = r->size - r->n_body < size ? r->size - r->n_body : size;

	grow(r, r->n_body + n);
	if (n > 0)
		memcpy(r->body + r->n_body, data, n);
	r->n_body += n;
	return n;
}

static int finish_frame(struct kernel_reader *r)
{
	int word = kind_of(r)->take(r);

	r->is_broken = word < 0;
	r->n_head = r->n_body = r->size = 0;
	return word;
}

int kernel_reader_feed(struct kernel_reader *r, const uint8_t *data, size_t size, size_t *ret_taken)
{
	size_t n = 0;

	if (!r->is_broken && r->n_head < sizeof(r->head))
		n = take_head(r, data, size);
	if (!r->is_broken && r->n_head == sizeof(r->head))
		n += take_body(r, data + n, size - n);
	if (r->is_broken)
		return -EBADMSG;
	*ret_taken = n;
	return r->n_head == sizeof(r->head) && r->n_body == r->size ? finish_frame(r)
								    : KERNEL_WORD_NONE;
}

void kernel_reader_fini(struct kernel_reader *r)
{
	free(r->body);
	kernel_reply_fini(&r->reply);
	*r = (struct kernel_reader){ 0 };
}
