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
#include "base/hash.h"
#include "core/boot.h"
#include "core/frames.h"

#define MAGIC     "BJI2"
#define OLD_MAGIC "BJINDEX1"
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

static void put_u32(uint8_t *to, uint32_t value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static uint32_t get_u32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

/* --- sums --- */

#define SALT UINT64_C(0x9e3779b97f4a7c15)

static uint64_t check_of(const uint8_t *data, uint64_t seq, uint64_t owner)
{
	uint64_t sum = (seq + SALT) ^ owner;

	for (size_t at = 0; at < CHECKED; at += sizeof(sum))
		sum = hash_add(sum, get_u64(data + at));
	return sum;
}

static uint64_t owner_of(const char *id)
{
	return hash_bytes(0, id, strlen(id));
}

uint32_t index_sum(const struct index *x, const void *data, size_t size)
{
	return size > 0 ? (uint32_t)hash_bytes(x->owner, data, size) : 0;
}

bool index_fits(const struct index *x, const struct index_record *record, const void *data)
{
	return x->is_old || record->sum == index_sum(x, data, record->size);
}

/* --- records --- */

static off_t offset_of(const struct index *x, uint64_t seq)
{
	return (off_t)((seq - x->first_seq + 1) * INDEX_RECORD_SIZE);
}

_Static_assert(FRAMES_EVENT_MAX <= UINT16_MAX && FRAMES_CHUNK_MAX <= UINT16_MAX, "a size fits");

static void put_size(const struct index *x, const struct index_record *record, uint8_t *to)
{
	uint16_t size = htole16((uint16_t)record->size);

	if (x->is_old) {
		put_u32(to + 4, record->size);
		return;
	}
	memcpy(to + 2, &size, sizeof(size));
	put_u32(to + 4, record->sum);
}

static void get_size(const struct index *x, const uint8_t *from, struct index_record *record)
{
	uint16_t size;

	if (x->is_old) {
		record->size = get_u32(from + 4);
		return;
	}
	memcpy(&size, from + 2, sizeof(size));
	record->size = le16toh(size);
	record->sum = get_u32(from + 4);
}

static void encode(
	const struct index *x, const struct index_record *record, uint64_t seq, uint8_t *to)
{
	assert(record->size <= UINT16_MAX);
	memset(to, 0, INDEX_RECORD_SIZE);
	to[0] = record->kind;
	to[1] = record->flags;
	put_size(x, record, to);
	put_u64(to + 8, record->offset);
	put_u64(to + 16, record->time_ns);
	put_u64(to + CHECKED, check_of(to, seq, x->owner));
}

static bool decode(
	const struct index *x, const uint8_t *from, uint64_t seq, struct index_record *ret)
{
	if (get_u64(from + CHECKED) != check_of(from, seq, x->owner))
		return false;
	*ret = (struct index_record){
		.kind = from[0],
		.flags = from[1],
		.offset = get_u64(from + 8),
		.time_ns = get_u64(from + 16),
	};
	get_size(x, from, ret);
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

/* --- the header --- */

static int write_header(const struct index *x)
{
	uint8_t head[INDEX_RECORD_SIZE] = MAGIC;

	put_u32(head + 4, boot_tag());
	put_u64(head + 8, x->first_seq);
	put_u64(head + 16, x->owner);
	put_u64(head + CHECKED, check_of(head, 0, 0));
	return write_whole(x->fd, head, sizeof(head), 0);
}

/* One that is empty already is not cut: ext4 takes that for a file being replaced, and writes
 * it out when it is closed. */
static int begin_anew(struct index *x, bool is_blank)
{
	if (!is_blank && ftruncate(x->fd, 0) < 0)
		return -errno;
	x->first_seq = 1;
	x->is_old = x->is_sure = false;
	return write_header(x);
}

/* A header that never got to the disk is shorter, or zero. */
static bool is_lost(const uint8_t *head, size_t size)
{
	static const uint8_t zero[INDEX_RECORD_SIZE];

	return size < INDEX_RECORD_SIZE || memcmp(head, zero, size) == 0;
}

static bool is_of_this_boot(const uint8_t *head)
{
	uint32_t tag = boot_tag();

	return tag != 0 && get_u32(head + 4) == tag;
}

static int parse_header(const uint8_t *head, size_t size, struct index *x)
{
	if (size < INDEX_RECORD_SIZE || get_u64(head + CHECKED) != check_of(head, 0, 0))
		return -EBADMSG;
	bool is_old = memcmp(head, OLD_MAGIC, strlen(OLD_MAGIC)) == 0;
	uint64_t first = get_u64(head + 8);
	if ((!is_old && memcmp(head, MAGIC, strlen(MAGIC)) != 0) || first < 1 || first >= SEQ_LIMIT)
		return -EBADMSG;
	x->first_seq = first;
	x->owner = is_old ? 0 : get_u64(head + 16);
	x->is_old = is_old;
	x->is_sure = is_old || is_of_this_boot(head);
	return 0;
}

/* Without `id` it is whose it says. */
static int read_header(struct index *x, const char *id, bool is_writable)
{
	uint8_t head[INDEX_RECORD_SIZE];
	ssize_t n = fd_pread_full(x->fd, head, sizeof(head), 0);
	uint64_t owner = id ? owner_of(id) : 0;

	if (n < 0)
		return (int)n;
	if (is_writable && is_lost(head, (size_t)n)) {
		x->owner = owner;
		return begin_anew(x, n == 0);
	}
	int r = parse_header(head, (size_t)n, x);
	if (r < 0 || !id || x->is_old || x->owner == owner)
		return r;
	x->owner = owner;
	if (is_writable)
		return begin_anew(x, false);
	/* None of its records is right for this owner. */
	x->first_seq = 1;
	x->is_sure = false;
	return 0;
}

static int adopt(struct index *x, int fd, const char *id, bool is_writable, struct err *err)
{
	struct index found = { .fd = fd };
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "the index of a stream is not a file");
	int r = read_header(&found, id, is_writable);
	if (r == -EBADMSG)
		return err_set(err, r, "the index of a stream has no header of ours");
	if (r < 0)
		return err_set(err, r, "index of a stream: %s", strerror(-r));
	*x = found;
	return 0;
}

int index_adopt(struct index *x, int fd, struct err *err)
{
	int r = adopt(x, fd, NULL, false, err);

	if (r == 0)
		x->is_sure = true;
	return r;
}

int index_open(struct index *x, int dir_fd, const char *id, bool is_writable, struct err *err)
{
	int flags = is_writable ? O_RDWR | O_CREAT : O_RDONLY;
	AUTO_FD fd = openat(dir_fd, "index", flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0)
		return err_errno(err, "open the index of a stream");
	int r = adopt(x, fd, id, is_writable, err);
	if (r == 0)
		(void)take_fd(&fd);
	return r;
}

int index_begin(struct index *x, int fd, const char *id)
{
	struct index begun = { .fd = fd, .owner = owner_of(id) };
	int r = begin_anew(&begun, true);

	if (r < 0)
		return r;
	begun.is_sure = true;
	*x = begun;
	return 0;
}

int index_assure(struct index *x)
{
	int r = write_header(x);

	if (r == 0)
		x->is_sure = true;
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
		encode(x, &records[i], seq + i, block + i * INDEX_RECORD_SIZE);
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
		decode(x, block + n_read * INDEX_RECORD_SIZE, seq + n_read, &ret[n_read]))
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
