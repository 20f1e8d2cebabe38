/* A short stream as one text, in base64: the index, then stdout, stderr and the events, each
 * after its size in 32 bits. What is read back is believed as little as files are: the same
 * checks decide which frames there are. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/stream_private.h"

#define N_PARTS   4u
#define BLANK_MAX 4096u
#define BYTES_MAX BASE64_BYTES_SIZE(STREAM_PACKED_MAX)

static uint64_t index_size(const struct stream *s)
{
	return (s->last_seq - s->index.first_seq + 2) * INDEX_RECORD_SIZE;
}

bool stream_is_short(const struct stream *s)
{
	uint64_t size = N_PARTS * sizeof(uint32_t) + index_size(s);

	for (size_t i = 0; i < ARRAY_SIZE(s->spools); i++)
		size += s->spools[i].size;
	return !s->failure && s->index.first_seq == 1 && size + STREAM_LAST_EVENTS <= BYTES_MAX;
}

/* One part of it: a file with so many bytes. */
static int add_part(int fd, uint64_t size, uint8_t *bytes, size_t *at)
{
	uint32_t head;

	if (size > BYTES_MAX || *at + sizeof(head) + size > BYTES_MAX)
		return -EFBIG;
	head = htole32((uint32_t)size);
	memcpy(bytes + *at, &head, sizeof(head));
	*at += sizeof(head);
	if (size > 0 && fd_pread_full(fd, bytes + *at, (size_t)size, 0) != (ssize_t)size)
		return -EIO;
	*at += (size_t)size;
	return 0;
}

int stream_pack(struct stream *s, char **ret)
{
	uint8_t bytes[BYTES_MAX];
	size_t size = 0;

	if (s->failure || s->index.first_seq != 1)
		return -EIO;
	int r = add_part(s->index.fd, index_size(s), bytes, &size);
	for (size_t i = 0; i < ARRAY_SIZE(s->spools) && r == 0; i++)
		r = add_part(s->spools[i].fd, s->spools[i].size, bytes, &size);
	if (r < 0)
		return r;
	char *text = xcalloc(1, BASE64_TEXT_SIZE(size));
	(void)base64_encode(bytes, size, text);
	*ret = text;
	return 0;
}

/* The next part as a file of its own, in memory; -1 for an empty one. */
static int take_part(const uint8_t *bytes, size_t size, size_t *at, int *ret_fd)
{
	uint32_t head;

	if (size - *at < sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes + *at, sizeof(head));
	head = le32toh(head);
	*at += sizeof(head);
	if (head > size - *at)
		return -EBADMSG;
	if (head == 0)
		return 0;
	AUTO_FD fd = memfd_create("stream", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, bytes + *at, head);
	if (r < 0)
		return r;
	*at += head;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int take_parts(const uint8_t *bytes, size_t size, struct stream_files *ret)
{
	int *const fds[N_PARTS] = { &ret->index_fd, &ret->spool_fds[0], &ret->spool_fds[1],
		&ret->spool_fds[2] };
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < N_PARTS && r == 0; i++)
		r = take_part(bytes, size, &at, fds[i]);
	return r == 0 && at != size ? -EBADMSG : r;
}

static int unpack(const char *text, struct stream_files *ret)
{
	uint8_t bytes[BYTES_MAX];
	size_t size = 0;

	if (strlen(text) > STREAM_PACKED_MAX || base64_decode(text, strlen(text), bytes, &size) < 0)
		return -EBADMSG;
	return take_parts(bytes, size, ret);
}

int stream_open_packed(const char *text, struct stream **ret, struct err *err)
{
	CLEANUP(stream_unrefp) struct stream *s = stream_new_ended();
	struct stream_files files = STREAM_FILES_NONE;
	int r = unpack(text, &files);

	if (r == 0 && files.index_fd < 0)
		r = -EBADMSG;
	if (r < 0)
		(void)err_set(err, r, "unpack a stream: %s", strerror(-r));
	else
		r = stream_adopt_files(s, &files, err);
	stream_files_close(&files);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

/* --- files that serve another --- */

/* The file itself is asked: what could not be cut off is there, and not in our count. */
static int empty(int fd)
{
	struct stat st = { 0 };

	if (fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	return st.st_size > 0 && ftruncate(fd, 0) < 0 ? -errno : 0;
}

/* To cut a file that has its block, and to give it another, costs ext4 more than all else that a
 * short run writes. A few bytes are overwritten in place: zeros are no record of an index, and
 * events without a record do not count. After a loss of power the disk may have the old bytes all
 * the same, but under a name that the index does not know for its owner's, or without a record
 * that is right about them. */
static int blank(int fd)
{
	static const uint8_t zeros[BLANK_MAX];
	struct stat st = { 0 };

	if (fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)sizeof(zeros))
		return empty(fd);
	if (st.st_size == 0)
		return 0;
	ssize_t n = pwrite(fd, zeros, (size_t)st.st_size, 0);
	return n == st.st_size ? 0 : n < 0 ? -errno : -EIO;
}

/* They stay open: ext4 would write out one that was cut and has grown again, when it is closed. */
bool stream_take_files(struct stream *s, struct stream_files *ret)
{
	int r = s->n_refs == 1 && s->has_ended ? blank(s->index.fd) : -EBUSY;

	if (r == 0)
		r = blank(stream_spool(s, FRAME_EVENT)->fd);
	if (r == 0)
		r = empty(stream_spool(s, FRAME_STDOUT)->fd);
	if (r == 0)
		r = empty(stream_spool(s, FRAME_STDERR)->fd);
	if (r < 0)
		return false;
	*ret = (struct stream_files){ take_fd(&s->dir_fd), take_fd(&s->index.fd), { -1, -1, -1 } };
	for (size_t i = 0; i < ARRAY_SIZE(s->spools); i++)
		ret->spool_fds[i] = take_fd(&s->spools[i].fd);
	return true;
}
