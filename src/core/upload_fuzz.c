/* Input: a byte of flags, then an archive. Whatever it is, what comes out is a stream that a
 * box accepts, with as many files and bytes as are reported, within the limits, and beside
 * the directory it is unpacked to nothing changes. */
#include "core/upload.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/pack_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct upload_limits limits = {
	.max_bytes = 256 << 10,
	.max_files = 50,
	.max_depth = 5,
	.max_ratio = 100,
};

/* The box: it only counts. */
struct counter {
	struct pack_sink sink;
	int fd;
	uint64_t n_files;
	uint64_t n_bytes;
	int r;
};

static int on_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct counter *c = (struct counter *)sink;

	(void)err;
	if (e->kind != PACK_FILE && e->kind != PACK_DIR)
		abort();
	if (strchr(e->name, '\\'))
		abort();
	c->n_files += e->kind == PACK_FILE;
	return 0;
}

static int on_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	(void)data;
	(void)err;
	((struct counter *)sink)->n_bytes += size;
	return 0;
}

static int on_finish(struct pack_sink *sink, struct err *err)
{
	(void)sink;
	(void)err;
	return 0;
}

static void *count(void *ctx)
{
	struct counter *c = ctx;
	static struct pack_reader reader;
	static uint8_t chunk[64 << 10];
	ssize_t n;

	pack_reader_init(&reader, &c->sink);
	while ((n = read(c->fd, chunk, sizeof(chunk))) > 0)
		if (pack_feed(&reader, chunk, (size_t)n, NULL) < 0)
			abort();
	c->r = pack_end(&reader, NULL);
	return NULL;
}

/* Is it the fault of who sent the archive? Any other error would be ours. */
static bool is_callers(int r)
{
	return r == -EBADMSG || r == -EFBIG || r == -E2BIG || r == -EINVAL;
}

static void pack(int fd, size_t size, uint8_t flags)
{
	struct counter c = { .sink = { on_begin, on_data, on_finish } };
	struct upload_limits used = limits;
	struct upload_source source = { .fd = fd, .size = size };
	struct upload_result result = { 0 };
	struct err err = { 0 };
	pthread_t thread;
	int ends[2];

	source.kind = flags & 1 ? UPLOAD_ZIP : UPLOAD_TAR;
	used.block_binaries = flags & 2;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	c.fd = ends[1];
	if (pthread_create(&thread, NULL, count, &c) != 0)
		abort();
	struct pack_writer w = { .fd = ends[0], .max_bytes = UINT64_MAX };
	int r = upload_pack(&source, 1, &used, &w, &result, &err);
	if (r == 0 && pack_write_end(&w, NULL) < 0)
		abort();
	(void)close(ends[0]);
	(void)pthread_join(thread, NULL);
	(void)close(ends[1]);
	/* An archive that was good once is good twice. */
	if (r < 0 && (!err.text[0] || !is_callers(r)))
		abort();
	if (r == 0 && (c.r < 0 || c.n_files != result.n_files || c.n_bytes != result.n_bytes))
		abort();
	if (c.n_files > used.max_files || c.n_bytes > used.max_bytes)
		abort();
}

/* Give every tar header its checksum, so that a change to one is not all that a run gets to
 * see. */
static void mend(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + 512 <= size; at += 512) {
		unsigned sum = 8 * ' ';

		if (memcmp(data + at + 257, "ustar", 5) != 0)
			continue;
		for (size_t i = 0; i < 512; i++)
			sum += i >= 148 && i < 156 ? 0 : data[at + i];
		(void)snprintf((char *)data + at + 148, 8, "%06o", sum & 0777777);
		data[at + 155] = ' ';
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	AUTO_FREE uint8_t *copy = malloc(size);
	AUTO_FD fd = memfd_create("upload", MFD_CLOEXEC);
	if (!copy || fd < 0)
		abort();
	memcpy(copy, data, size);
	if (data[0] & 4)
		mend(copy + 1, size - 1);
	if (fd_write_full(fd, copy + 1, size - 1) < 0)
		abort();
	pack(fd, size - 1, data[0]);
	return 0;
}
