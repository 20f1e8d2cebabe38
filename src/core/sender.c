#include "core/sender.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "ipc/pack_write.h"

#define CHUNK_SIZE (64u << 10)

static int send_all(struct pack_writer *w, const void *data, size_t size, struct err *err)
{
	const char *p = data;

	while (size > 0) {
		ssize_t n = send(w->fd, p, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "send files");
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int send_head(struct pack_writer *w, const struct pack_entry *e, struct err *err)
{
	uint8_t buf[PACK_HEAD_SIZE + PACK_NAME_MAX];

	if (w->n_entries >= PACK_ENTRIES_MAX)
		return err_set(err, -E2BIG, "more than %u files", PACK_ENTRIES_MAX);
	w->n_entries++;
	return send_all(w, buf, pack_encode(e, buf), err);
}

static int fill_name(struct pack_entry *e, const char *name, struct err *err)
{
	if (!pack_name_is_clean(name))
		return err_set(
			err, -EINVAL, "'%.100s' is not a name a file can have in the box", name);
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	return 0;
}

int sender_dir(struct pack_writer *w, const char *name, uint32_t mode, struct err *err)
{
	struct pack_entry e = { .kind = PACK_DIR, .mode = mode & 0777 };
	int r = fill_name(&e, name, err);

	return r < 0 ? r : send_head(w, &e, err);
}

int sender_file(
	struct pack_writer *w, const char *name, uint32_t mode, uint64_t size, struct err *err)
{
	struct pack_entry e = { .kind = PACK_FILE, .mode = mode & 0777, .size = size };
	int r = fill_name(&e, name, err);

	return r < 0 ? r : send_head(w, &e, err);
}

int sender_data(struct pack_writer *w, const void *data, size_t size, struct err *err)
{
	w->n_bytes += size;
	return send_all(w, data, size, err);
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
