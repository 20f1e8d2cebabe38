#include "core/sender.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "ipc/pack_write.h"

#define CHUNK_SIZE (64u << 10)

int sender_dir(struct pack_writer *w, const char *name, uint32_t mode, struct err *err)
{
	return pack_write_head(w, PACK_DIR, name, mode, 0, err);
}

int sender_file(
	struct pack_writer *w, const char *name, uint32_t mode, uint64_t size, struct err *err)
{
	return pack_write_head(w, PACK_FILE, name, mode, size, err);
}

int sender_data(struct pack_writer *w, const void *data, size_t size, struct err *err)
{
	return pack_write_data(w, data, size, err);
}

int sender_range(struct pack_writer *w, int fd, uint64_t offset, uint64_t size, struct err *err)
{
	char chunk[CHUNK_SIZE];

	while (size > 0) {
		size_t want = size < sizeof(chunk) ? (size_t)size : sizeof(chunk);
		ssize_t n = pread(fd, chunk, want, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "read the upload");
		if (n == 0)
			return err_set(err, -EIO, "the upload became shorter meanwhile");
		int r = sender_data(w, chunk, (size_t)n, err);
		if (r < 0)
			return r;
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}
