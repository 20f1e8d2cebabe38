#include "http/body.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/discard.h"
#include "base/err.h"
#include "base/fd.h"

#define ROOM_MIN 1024u
#define TRIM_MIN (1u << 20)

void body_init(struct body *b, enum body_mode mode, uint64_t max)
{
	*b = (struct body){ .mode = mode, .max = max, .fd = -1 };
}

/* What was made of a large one is freed by now, and lies about in pieces that nobody else may
 * ever need. */
void body_fini(struct body *b)
{
	free(b->data);
	discard_fd(&b->fd);
	if (b->room >= TRIM_MIN)
		(void)malloc_trim(0);
}

void body_drop(struct body *b)
{
	free(b->data);
	b->data = NULL;
	b->size = 0;
}

/* Some file systems know no O_TMPFILE. */
static int open_unlinked(const char *dir)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/body.XXXXXX", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)unlink(path);
	return fd;
}

int body_open_file(const char *dir)
{
	if (!dir)
		return -EINVAL;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT))
		return open_unlinked(dir);
	return fd < 0 ? -errno : fd;
}

int body_open(struct body *b, const char *dir, struct err *err)
{
	if (b->mode != BODY_FILE)
		return 0;
	if (!dir)
		return err_set(err, -EINVAL, "there is no directory for bodies");
	b->fd = body_open_file(dir);
	return b->fd < 0
		       ? err_set(err, b->fd, "spool a body in '%.100s': %s", dir, strerror(-b->fd))
		       : 0;
}

/* Doubles, so that what a client only promises costs nothing. */
static int add_to_memory(struct body *b, const char *data, size_t size)
{
	if (b->size + size + 1 > b->room) {
		size_t room = b->room ? b->room * 2 : ROOM_MIN;
		if (room < b->size + size + 1)
			room = b->size + size + 1;
		char *grown = realloc(b->data, room);
		if (!grown)
			return -ENOMEM;
		b->data = grown;
		b->room = room;
	}
	memcpy(b->data + b->size, data, size);
	b->data[b->size + size] = '\0';
	return 0;
}

int body_add(struct body *b, const char *data, size_t size)
{
	int r = 0;

	if (size > b->max - b->size)
		return -EFBIG;
	if (b->mode == BODY_MEMORY)
		r = add_to_memory(b, data, size);
	else if (b->mode == BODY_FILE)
		r = fd_write_full(b->fd, data, size);
	if (r == 0)
		b->size += size;
	return r;
}
