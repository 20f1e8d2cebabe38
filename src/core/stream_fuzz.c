/* Input: files of a stream as somebody hostile might leave them. A byte says what the rest
 * is; either the index itself, or fields of records that get the right check and sum, which no
 * fuzzer would guess. The spools hold the input too. */
#include "core/stream.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/base64.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/index.h"
#include "lib/scratch.h"

enum {
	IS_RAW = 1,      /* the input is the index */
	IS_WRITABLE = 2, /* recover it, else only read it */
	IS_PACKED = 4,   /* the input is what a packed stream holds */
};

/* Whose index the seeds have. */
#define ID "fuzz"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool cond)
{
	if (!cond)
		abort();
}

static void write_file(int dir_fd, const char *name, const uint8_t *data, size_t size)
{
	AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	insist(fd >= 0 && fd_write_full(fd, data, size) == 0);
}

static void add_sum(
	const struct index *x, struct index_record *record, const uint8_t *spool, size_t size)
{
	if (record->offset <= size && record->size <= size - record->offset)
		record->sum = index_sum(x, spool + record->offset, record->size);
}

/* Five bytes each, after the first: kind, flags, size, offset. */
static void write_records(int dir_fd, const uint8_t *spool, size_t spool_size)
{
	const uint8_t *data = spool + 1;
	size_t size = spool_size > 0 ? spool_size - 1 : 0;
	struct index x = { .fd = -1 };
	uint64_t seq = 1;

	(void)unlinkat(dir_fd, "index", 0);
	insist(index_open(&x, dir_fd, ID, true, NULL) == 0);
	for (; size >= 5; data += 5, size -= 5) {
		struct index_record record = {
			.kind = data[0],
			.flags = data[1],
			.size = data[2],
			.offset = data[3] == 0xff ? UINT64_MAX - data[4]
						  : (uint64_t)data[3] << 8 | data[4],
		};

		add_sum(&x, &record, spool, spool_size);
		insist(index_write(&x, seq++, &record, 1) == 0);
	}
	index_fini(&x);
}

/* Every frame there is: numbered upwards, JSON, of a permitted size. */
static void replay(struct stream *s)
{
	struct cursor *c = cursor_open(s, 0, NULL, NULL);
	struct shared *message;
	uint64_t last = 0;

	while ((message = cursor_next(c))) {
		json_t *frame =
			json_loadb(shared_data(message), message->size, JSON_ALLOW_NUL, NULL);
		uint64_t seq = (uint64_t)json_integer_value(json_object_get(frame, "seq"));

		insist(frame && message->size <= STREAM_MESSAGE_MAX);
		insist(seq > last && seq <= stream_last_seq(s));
		last = seq;
		json_decref(frame);
		shared_unref(message);
	}
	cursor_close(c);
}

static uint64_t visit(uv_loop_t *loop, int dir_fd, bool is_writable)
{
	struct stream_options options = { .id = ID, .log_cap = 100 };
	struct stream *s = NULL;
	uint64_t last = 0;
	int r = is_writable ? stream_open(loop, dir_fd, &options, &s, NULL)
			    : stream_open_ended(loop, dir_fd, ID, &s, NULL);

	insist((r == 0) == (s != NULL));
	if (s) {
		replay(s);
		last = stream_last_seq(s);
	}
	stream_unref(s);
	(void)uv_run(loop, UV_RUN_DEFAULT);
	return last;
}

static void visit_packed(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(size));
	struct stream *s = NULL;

	(void)base64_encode(data, size, text);
	if (stream_open_packed(text, &s, NULL) < 0)
		return;
	replay(s);
	stream_unref(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const spools[] = { "stdout", "stderr", "events" };
	SCRATCH(dir);
	uv_loop_t loop;
	unsigned mode = size ? data[0] : 0;

	log_set_level(LOG_LEVEL_ERROR);
	if (mode & IS_PACKED) {
		visit_packed(data + 1, size - 1);
		return 0;
	}
	insist(uv_loop_init(&loop) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(spools); i++)
		write_file(dir.fd, spools[i], data, size);
	if (mode & IS_RAW)
		write_file(dir.fd, "index", data + 1, size - 1);
	else
		write_records(dir.fd, data, size);
	uint64_t last = visit(&loop, dir.fd, mode & IS_WRITABLE);
	/* What was recovered once needs no more. */
	if (mode & IS_WRITABLE)
		insist(visit(&loop, dir.fd, true) == last && visit(&loop, dir.fd, false) == last);
	insist(uv_loop_close(&loop) == 0);
	return 0;
}
