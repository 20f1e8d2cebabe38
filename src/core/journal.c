#include "core/journal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "store/record.h"
#include "store/row.h"

#define MAGIC      UINT32_C(0x314a4a42) /* "BJJ1" */
#define HEAD_SIZE  24u                  /* magic, size of what follows, columns, check */
#define TEXT_MAX   (JOURNAL_PLACE_SIZE - HEAD_SIZE)
#define NULL_TEXT  0
#define GIVEN_TEXT 1

struct journal {
	int fd;
	uint16_t sizes[JOURNAL_PLACES]; /* of what is there; 0: it is free */
};

static void put_column(struct put *p, const struct column *c, const struct run_row *row)
{
	if (c->type != COLUMN_TEXT) {
		put_u64(p, (uint64_t)*row_int(c, row));
		return;
	}
	const char *text = *row_text(c, row);
	put_u8(p, text ? GIVEN_TEXT : NULL_TEXT);
	if (text)
		put_str(p, text);
}

static void get_column(struct cur *c, const struct column *column, struct run_row *ret)
{
	if (column->type != COLUMN_TEXT) {
		*row_int(column, ret) = (int64_t)cur_u64(c);
		return;
	}
	uint8_t is_given = cur_u8(c);
	if (is_given == GIVEN_TEXT)
		*row_text(column, ret) = cur_str(c, TEXT_MAX);
	else if (is_given != NULL_TEXT)
		c->bad = true;
}

/* Which columns a row has: other versions of this program may have others. */
static uint64_t columns(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < run_table.n_columns; i++) {
		const struct column *c = &run_table.columns[i];

		sum = hash_add(hash_bytes(sum, c->name, strlen(c->name)), (uint64_t)c->type);
	}
	return sum;
}

static void put_head(uint8_t *to, const uint8_t *data, size_t size)
{
	uint32_t words[2] = { htole32(MAGIC), htole32((uint32_t)size) };
	uint64_t sums[2] = { htole64(columns()), htole64(hash_bytes(0, data, size)) };

	memcpy(to, words, sizeof(words));
	memcpy(to + sizeof(words), sums, sizeof(sums));
}

/* What follows a head; its size, or -ENOENT, -EBADMSG, -ENOTSUP. */
static int read_head(const uint8_t *data, size_t size)
{
	uint32_t words[2];
	uint64_t sums[2];

	if (size < HEAD_SIZE)
		return -EBADMSG;
	memcpy(words, data, sizeof(words));
	memcpy(sums, data + sizeof(words), sizeof(sums));
	size_t n = le32toh(words[1]);
	if (words[0] == 0 && n == 0)
		return -ENOENT;
	if (le32toh(words[0]) != MAGIC || n > size - HEAD_SIZE ||
		le64toh(sums[1]) != hash_bytes(0, data + HEAD_SIZE, n))
		return -EBADMSG;
	return le64toh(sums[0]) == columns() ? (int)n : -ENOTSUP;
}

int journal_parse(const uint8_t *data, size_t size, struct run_row *ret)
{
	int n = read_head(data, size);

	return n < 0 ? n : journal_parse_row(data + HEAD_SIZE, (size_t)n, ret);
}

int journal_parse_row(const uint8_t *data, size_t size, struct run_row *ret)
{
	struct run_row row = { 0 };
	struct cur c;

	cur_init(&c, data, size);
	for (size_t i = 0; i < run_table.n_columns; i++)
		get_column(&c, &run_table.columns[i], &row);
	if (cur_end(&c) < 0 || !row.id || !row.user_id || !row.phase) {
		row_fini(&run_table, &row);
		return -EBADMSG;
	}
	*ret = row;
	return 0;
}

static off_t offset_of(int place)
{
	return (off_t)place * JOURNAL_PLACE_SIZE;
}

/* Every place that is not empty: what is in it is looked at when it is asked for. */
static int find_taken(struct journal *j)
{
	uint8_t head[HEAD_SIZE];
	static const uint8_t none[HEAD_SIZE];

	for (int i = 0; i < JOURNAL_PLACES; i++) {
		ssize_t n = fd_pread_full(j->fd, head, sizeof(head), offset_of(i));

		if (n < 0)
			return (int)n;
		if (n == (ssize_t)sizeof(head) && memcmp(head, none, sizeof(head)) != 0)
			j->sizes[i] = JOURNAL_PLACE_SIZE;
	}
	return 0;
}

int journal_open(int dir_fd, struct journal **ret, struct err *err)
{
	CLEANUP(journal_freep) struct journal *j = xnew(struct journal);

	j->fd = openat(dir_fd, "meta/journal", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (j->fd < 0)
		return err_errno(err, "open meta/journal");
	int r = find_taken(j);
	if (r < 0)
		return err_set(err, r, "read meta/journal: %s", strerror(-r));
	*ret = TAKE(j);
	return 0;
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	close_fdp(&j->fd);
	free(j);
}

static int find_free(const struct journal *j)
{
	for (int i = 0; i < JOURNAL_PLACES; i++) {
		if (j->sizes[i] == 0)
			return i;
	}
	return -ENOSPC;
}

/* All of it in one write: it is there as a whole, or not. */
static int write_row(struct journal *j, int place, struct put *p)
{
	if (put_end(p) < 0)
		return -E2BIG;
	put_head(p->data, p->data + HEAD_SIZE, p->size - HEAD_SIZE);
	ssize_t n = pwrite(j->fd, p->data, p->size, offset_of(place));
	if (n == (ssize_t)p->size)
		return 0;
	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	j->sizes[place] = JOURNAL_PLACE_SIZE; /* there is something now that has to go */
	journal_remove(j, place);
	return -EIO;
}

int journal_add(struct journal *j, const struct run_row *row)
{
	static const uint8_t head[HEAD_SIZE];
	int place = find_free(j);
	struct put p;

	if (place < 0)
		return place;
	put_init(&p, JOURNAL_PLACE_SIZE);
	put_bytes(&p, head, sizeof(head));
	for (size_t i = 0; i < run_table.n_columns; i++)
		put_column(&p, &run_table.columns[i], row);
	int r = write_row(j, place, &p);
	if (r == 0)
		j->sizes[place] = (uint16_t)p.size;
	put_fini(&p);
	return r < 0 ? r : place;
}

void journal_remove(struct journal *j, int place)
{
	static const uint8_t nothing[JOURNAL_PLACE_SIZE];

	if (place < 0 || j->sizes[place] == 0)
		return;
	/* A place that can not be emptied stays taken; the store has what is in it. */
	if (pwrite(j->fd, nothing, j->sizes[place], offset_of(place)) == j->sizes[place])
		j->sizes[place] = 0;
}

int journal_next(struct journal *j, int from, struct run_row *ret)
{
	uint8_t data[JOURNAL_PLACE_SIZE];

	for (int i = from; i < JOURNAL_PLACES; i++) {
		if (j->sizes[i] == 0)
			continue;
		ssize_t n = fd_pread_full(j->fd, data, sizeof(data), offset_of(i));
		if (n < 0)
			return (int)n;
		int r = journal_parse(data, (size_t)n, ret);
		if (r == 0)
			return i;
		log_warn("a row of the journal can not be read, ignoring: %s", strerror(-r));
		if (r != -ENOTSUP)
			journal_remove(j, i);
	}
	return -ENOENT;
}
