#include "ipc/pack.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

#define CHUNK_SIZE (64u << 10)
#define NS_PER_SEC 1000000000u

static const struct kind {
	enum pack_kind kind;
	bool has_data;
	bool has_target; /* that is its data, and a name */
} kinds[] = {
	{ PACK_FILE, .has_data = true },
	{ PACK_DIR },
	{ PACK_LINK, .has_data = true, .has_target = true },
	{ PACK_TWIN, .has_data = true, .has_target = true },
	{ PACK_SKIP },
	{ PACK_TIME },
	{ PACK_END },
};

static const struct kind *find_kind(uint8_t kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if ((uint8_t)kinds[i].kind == kind)
			return &kinds[i];
	}
	return NULL;
}

bool pack_has_data(enum pack_kind kind)
{
	const struct kind *k = find_kind((uint8_t)kind);

	return k && k->has_data;
}

size_t pack_encode(const struct pack_entry *e, uint8_t *buf)
{
	size_t n = strlen(e->name);
	uint32_t mode = htole32(e->mode);
	uint32_t name_size = htole32((uint32_t)n);
	uint64_t size = htole64(e->size);

	buf[0] = (uint8_t)e->kind;
	memcpy(buf + 1, &mode, sizeof(mode));
	memcpy(buf + 5, &name_size, sizeof(name_size));
	memcpy(buf + 9, &size, sizeof(size));
	memcpy(buf + PACK_HEAD_SIZE, e->name, n);
	return PACK_HEAD_SIZE + n;
}

bool pack_name_is_clean(const char *name)
{
	unsigned depth = 0;

	if (!*name || strlen(name) > PACK_NAME_MAX)
		return false;
	for (const char *p = name;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > 255 || ++depth > PACK_DEPTH_MAX)
			return false;
		if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
			return false;
		p += n;
		if (!*p++)
			return true;
	}
}

void pack_reader_init(struct pack_reader *r, struct pack_sink *sink)
{
	memset(r, 0, sizeof(*r));
	r->sink = sink;
}

static int finish_entry(struct pack_reader *r, struct err *err)
{
	r->in_entry = false;
	r->n_head = 0;
	r->n_name = 0;
	if (r->entry.kind == PACK_END)
		return 0;
	if (r->entry.kind == PACK_TIME)
		r->n_times++;
	else
		r->n_entries++;
	return r->sink->finish(r->sink, err);
}

/* The head is complete: judge it before a byte of what it announces is read. */
static int accept_head(struct pack_reader *r, struct err *err)
{
	const struct kind *kind = find_kind(r->head[0]);
	uint32_t mode, name_size;
	uint64_t size;

	memcpy(&mode, r->head + 1, sizeof(mode));
	memcpy(&name_size, r->head + 5, sizeof(name_size));
	memcpy(&size, r->head + 9, sizeof(size));
	if (!kind)
		return err_set(err, -EBADMSG, "file stream: unknown kind of entry");
	r->entry.kind = kind->kind;
	r->entry.mode = kind->kind == PACK_TIME ? le32toh(mode) : le32toh(mode) & 0777;
	r->entry.size = le64toh(size);
	r->name_size = le32toh(name_size);
	if (r->name_size > PACK_NAME_MAX || (r->entry.kind == PACK_END) != (r->name_size == 0))
		return err_set(err, -EBADMSG, "file stream: bad length of a name");
	if (kind->has_target && r->entry.size > PACK_NAME_MAX)
		return err_set(err, -EBADMSG, "file stream: link target too long");
	if (kind->kind == PACK_TIME && r->entry.mode >= NS_PER_SEC)
		return err_set(err, -EBADMSG, "file stream: no such time");
	return 0;
}

static int begin_end(struct pack_reader *r, struct err *err)
{
	if (r->entry.size != r->n_entries)
		return err_set(err, -EBADMSG, "file stream: entries are missing");
	r->ended = true;
	return 0;
}

/* Head and name are complete. */
static int begin_entry(struct pack_reader *r, struct err *err)
{
	r->entry.name[r->name_size] = '\0';
	if (r->entry.kind == PACK_END)
		return begin_end(r, err);
	if (strlen(r->entry.name) != r->name_size || !pack_name_is_clean(r->entry.name))
		return err_set(err, -EBADMSG, "file stream: unsafe name '%.100s'", r->entry.name);
	if (r->entry.kind == PACK_TIME && r->n_times >= r->n_entries)
		return err_set(err, -EBADMSG, "file stream: more times than files");
	if (r->entry.kind != PACK_TIME && r->n_entries >= PACK_ENTRIES_MAX)
		return err_set(err, -E2BIG, "more than %u files", PACK_ENTRIES_MAX);
	r->left = pack_has_data(r->entry.kind) ? r->entry.size : 0;
	r->in_entry = true;
	int result = r->sink->begin(r->sink, &r->entry, err);
	if (result < 0 || r->left > 0)
		return result;
	return finish_entry(r, err);
}

static size_t min_size(size_t a, uint64_t b)
{
	return a < b ? a : (size_t)b;
}

/* Take what fits the current part of the entry; returns how much, or an error. */
static ssize_t feed_some(struct pack_reader *r, const uint8_t *data, size_t size, struct err *err)
{
	int result = 0;
	size_t n;

	if (r->ended)
		return err_set(err, -EBADMSG, "file stream: bytes behind its end");
	if (r->in_entry) {
		n = min_size(size, r->left);
		result = r->sink->data(r->sink, data, n, err);
		r->left -= n;
		if (result == 0 && r->left == 0)
			result = finish_entry(r, err);
	} else if (r->n_head < PACK_HEAD_SIZE) {
		n = min_size(size, PACK_HEAD_SIZE - r->n_head);
		memcpy(r->head + r->n_head, data, n);
		r->n_head += n;
		if (r->n_head == PACK_HEAD_SIZE) {
			result = accept_head(r, err);
			if (result == 0 && r->name_size == 0)
				result = begin_entry(r, err);
		}
	} else {
		n = min_size(size, r->name_size - r->n_name);
		memcpy(r->entry.name + r->n_name, data, n);
		r->n_name += n;
		if (r->n_name == r->name_size)
			result = begin_entry(r, err);
	}
	return result < 0 ? result : (ssize_t)n;
}

int pack_feed(struct pack_reader *r, const uint8_t *data, size_t size, struct err *err)
{
	if (r->failed)
		return err_set(err, r->failed, "file stream: it failed before");
	while (size > 0) {
		ssize_t n = feed_some(r, data, size, err);

		if (n < 0) {
			r->failed = (int)n;
			return r->failed;
		}
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int pack_end(const struct pack_reader *r, struct err *err)
{
	return r->ended && !r->failed ? 0 : err_set(err, -EBADMSG, "file stream: cut short");
}

int pack_read_file(int fd, struct pack_sink *sink, struct err *err)
{
	AUTO_FREE struct pack_reader *reader = xnew(struct pack_reader);
	AUTO_FREE uint8_t *chunk = xcalloc(1, CHUNK_SIZE);
	off_t at = 0;

	pack_reader_init(reader, sink);
	for (;;) {
		ssize_t n = fd_pread_full(fd, chunk, CHUNK_SIZE, at);

		if (n < 0)
			return err_set(
				err, (int)n, "read a stream of files: %s", strerror((int)-n));
		if (n == 0)
			return pack_end(reader, err);
		int r = pack_feed(reader, chunk, (size_t)n, err);
		if (r < 0)
			return r;
		at += n;
	}
}
