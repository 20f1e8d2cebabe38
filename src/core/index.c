#include "core/index.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "core/frames.h"

#define MAGIC     "BJINDEX1"
#define CHECKED   24u                 /* bytes that the check is over */
#define SEQ_LIMIT (UINT64_C(1) << 50) /* so that no offset overflows */

/* The most bytes a frame of each kind has in its spool, which is also which kinds exist. */
static const struct {
	bool is_known;
	uint32_t size_max;
} kinds[] = {
	[FRAME_STDOUT] = { true, FRAMES_CHUNK_MAX },
	[FRAME_STDERR] = { true, FRAMES_CHUNK_MAX },
	[FRAME_EVENT] = { true, FRAMES_EVENT_MAX },
	[FRAME_HEARTBEAT] = { true, 0 },
	[FRAME_TRUNCATED] = { true, FRAMES_NAME_MAX },
};

static void put_u64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static uint64_t get_u64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

static uint64_t check_of(const uint8_t *data, uint64_t seq)
{
	uint64_t sum = seq + UINT64_C(0x9e3779b97f4a7c15);

	for (size_t at = 0; at < CHECKED; at += sizeof(sum)) {
		sum = (sum ^ get_u64(data + at)) * UINT64_C(0xff51afd7ed558ccd);
		sum ^= sum >> 32;
	}
	return sum;
}

static off_t offset_of(const struct index *x, uint64_t seq)
{
	return (off_t)((seq - x->first_seq + 1) * INDEX_RECORD_SIZE);
}

static void encode(const struct index_record *record, uint64_t seq, uint8_t *to)
{
	uint32_t size = htole32(record->size);

	memset(to, 0, INDEX_RECORD_SIZE);
	to[0] = record->kind;
	to[1] = record->flags;
	memcpy(to + 4, &size, sizeof(size));
	put_u64(to + 8, record->offset);
	put_u64(to + 16, record->time_ns);
	put_u64(to + CHECKED, check_of(to, seq));
}

static bool decode(const uint8_t *from, uint64_t seq, struct index_record *ret)
{
	uint32_t size;

	if (get_u64(from + CHECKED) != check_of(from, seq))
		return false;
	memcpy(&size, from + 4, sizeof(size));
	*ret = (struct index_record){
		.kind = from[0],
		.flags = from[1],
		.size = le32toh(size),
		.offset = get_u64(from + 8),
		.time_ns = get_u64(from + 16),
	};
	return ret->kind < ARRAY_SIZE(kinds) && kinds[ret->kind].is_known &&
	       ret->size <= kinds[ret->kind].size_max &&
	       ret->offset <= (uint64_t)INT64_MAX - ret->size;
}

static int write_whole(int fd, const uint8_t *data, size_t size, off_t at)
{
	while (size > 0) {
		ssize_t n = pwrite(fd, data, size, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
		at += n;
	}
	return 0;
}

/* One that is empty already is not cut: ext4 takes that for a file being replaced, and writes
 * it out when it is closed. */
static int begin_anew(int fd, bool is_blank, uint64_t *ret_first_seq)
{
	uint8_t head[INDEX_RECORD_SIZE] = MAGIC;

	put_u64(head + 8, 1);
	put_u64(head + CHECKED, check_of(head, 0));
	if (!is_blank && ftruncate(fd, 0) < 0)
		return -errno;
	int r = write_whole(fd, head, sizeof(head), 0);
	if (r == 0)
		*ret_first_seq = 1;
	return r;
}

/* A header that never got to the disk is shorter, or zero. */
static bool is_lost(const uint8_t *head, size_t size)
{
	static const uint8_t zero[INDEX_RECORD_SIZE];

	return size < INDEX_RECORD_SIZE || memcmp(head, zero, size) == 0;
}

static int read_header(int fd, bool is_writable, uint64_t *ret_first_seq)
{
	uint8_t head[INDEX_RECORD_SIZE];
	ssize_t n = fd_pread_full(fd, head, sizeof(head), 0);

	if (n < 0)
		return (int)n;
	if (is_writable && is_lost(head, (size_t)n))
		return begin_anew(fd, n == 0, ret_first_seq);
	if (n < (ssize_t)sizeof(head) || memcmp(head, MAGIC, strlen(MAGIC)) != 0 ||
		get_u64(head + CHECKED) != check_of(head, 0))
		return -EBADMSG;
	uint64_t first = get_u64(head + 8);
	if (first < 1 || first >= SEQ_LIMIT)
		return -EBADMSG;
	*ret_first_seq = first;
	return 0;
}

int index_adopt(struct index *x, int fd, bool is_writable, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "the index of a stream is not a file");
	int r = read_header(fd, is_writable, &x->first_seq);
	if (r == -EBADMSG)
		return err_set(err, r, "the index of a stream has no header of ours");
	if (r < 0)
		return err_set(err, r, "index of a stream: %s", strerror(-r));
	x->fd = fd;
	return 0;
}

int index_open(struct index *x, int dir_fd, bool is_writable, struct err *err)
{
	int flags = is_writable ? O_RDWR | O_CREAT : O_RDONLY;
	AUTO_FD fd = openat(dir_fd, "index", flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0)
		return err_errno(err, "open the index of a stream");
	int r = index_adopt(x, fd, is_writable, err);
	if (r == 0)
		(void)take_fd(&fd);
	return r;
}

int index_begin(struct index *x, int fd)
{
	int r = begin_anew(fd, true, &x->first_seq);

	if (r == 0)
		x->fd = fd;
	return r;
}

void index_fini(struct index *x)
{
	close_fdp(&x->fd);
}

int index_write(const struct index *x, uint64_t seq, const struct index_record *records, size_t n)
{
	uint8_t block[INDEX_BLOCK * INDEX_RECORD_SIZE];

	assert(n <= INDEX_BLOCK);
	for (size_t i = 0; i < n; i++)
		encode(&records[i], seq + i, block + i * INDEX_RECORD_SIZE);
	int r = write_whole(x->fd, block, n * INDEX_RECORD_SIZE, offset_of(x, seq));
	if (r < 0)
		(void)index_cut(x, seq - 1);
	return r;
}

ssize_t index_read(const struct index *x, uint64_t seq, struct index_record *ret, size_t n)
{
	uint8_t block[INDEX_BLOCK * INDEX_RECORD_SIZE];

	assert(n <= INDEX_BLOCK && seq >= x->first_seq);
	if (seq >= SEQ_LIMIT + x->first_seq)
		return 0;
	ssize_t size = fd_pread_full(x->fd, block, n * INDEX_RECORD_SIZE, offset_of(x, seq));
	if (size < 0)
		return size;
	size_t n_read = 0;
	while ((n_read + 1) * INDEX_RECORD_SIZE <= (size_t)size &&
		decode(block + n_read * INDEX_RECORD_SIZE, seq + n_read, &ret[n_read]))
		n_read++;
	return (ssize_t)n_read;
}

int index_cut(const struct index *x, uint64_t last_seq)
{
	off_t size = offset_of(x, last_seq + 1);
	struct stat st;

	if (fstat(x->fd, &st) == 0 && st.st_size == size)
		return 0;
	while (ftruncate(x->fd, size) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}
