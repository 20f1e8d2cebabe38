/* Twice through everything. The first reading fills a manifest: names, true sizes, and what is
 * left out; a damaged archive ends it. Then conflicts and limits are settled, and
 * the second reading sends what the manifest kept. */
#include "core/upload.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/extract.h"
#include "core/ignore.h"
#include "core/manifest.h"
#include "core/sender.h"
#include "ipc/pack_write.h"

#define MODE_FILE    0644u
#define MODE_PROGRAM 0755u
#define MODE_DIR     0755u
#define IGNORE_FILE  ".dockerignore"

struct upload {
	const struct upload_limits *limits;
	struct ignore *ignore; /* the limits' patterns */
	struct ignore *allow;  /* likewise, of binaries */
	struct manifest manifest;
	struct upload_result result;
};

static void upload_fini(struct upload *u)
{
	ignore_free(u->ignore);
	ignore_free(u->allow);
	manifest_fini(&u->manifest);
}

static int add_patterns(struct ignore *g, char *const *patterns, struct err *err)
{
	for (; patterns && *patterns; patterns++) {
		int r = ignore_add(g, *patterns, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int upload_init(struct upload *u, const struct upload_limits *limits, struct err *err)
{
	*u = (struct upload){ .limits = limits, .ignore = ignore_new(), .allow = ignore_new() };
	int r = add_patterns(u->ignore, limits->ignore, err);
	return r < 0 ? r : add_patterns(u->allow, limits->allow, err);
}

bool upload_may_be_binary(char *const *allow, const char *path)
{
	CLEANUP(ignore_freep) struct ignore *g = ignore_new();

	return add_patterns(g, allow, NULL) == 0 && ignore_match(g, path, NULL) > 0;
}

/* --- the first reading --- */

/* What is learned of a file while its bytes pass. */
struct look {
	uint64_t size;
	size_t n_head;
	char head[UPLOAD_HEAD_SIZE];
};

static void look_at(struct look *look, const void *data, size_t size)
{
	size_t room = sizeof(look->head) - look->n_head;
	size_t n = size < room ? size : room;

	memcpy(look->head + look->n_head, data, n);
	look->n_head += n;
	look->size += size;
}

/* Room for a .dockerignore, while an archive is read. */
struct ignore_text {
	bool is_there;
	size_t size;
	char text[IGNORE_FILE_MAX];
};

static int keep_text(struct ignore_text *t, const void *data, size_t size, struct err *err)
{
	if (size > sizeof(t->text) - t->size)
		return err_set(
			err, -E2BIG, IGNORE_FILE " is larger than %u bytes", IGNORE_FILE_MAX);
	memcpy(t->text + t->size, data, size);
	t->size += size;
	return 0;
}

static int read_member(
	struct extract *x, struct look *look, struct ignore_text *text, struct err *err)
{
	const void *data = NULL;
	size_t size = 0;
	int r;

	look->size = look->n_head = 0;
	if (text)
		*text = (struct ignore_text){ .is_there = true }; /* the last of the name counts */
	while ((r = extract_data(x, &data, &size, err)) > 0) {
		look_at(look, data, size);
		r = text ? keep_text(text, data, size, err) : 0;
		if (r < 0)
			return r;
	}
	return r;
}

/* Put a file or directory into the manifest, unless something speaks against it. */
static int enlist(
	struct upload *u, struct manifest_entry *e, const struct look *look, struct err *err)
{
	int r = ignore_match(u->ignore, e->name, err);

	if (r < 0)
		return r;
	if (r > 0) {
		u->result.n_ignored += !e->is_dir;
		return 0;
	}
	if (!e->is_dir && u->limits->block_binaries && upload_is_binary(look->head, look->n_head)) {
		r = ignore_match(u->allow, e->name, err);
		u->result.n_binaries += r == 0;
		if (r <= 0)
			return r;
	}
	e->size = e->is_dir ? 0 : look->size;
	return manifest_add(&u->manifest, e, err);
}

static int too_deep(const struct upload *u, struct err *err)
{
	return err_set(err, -E2BIG, "a file lies deeper than the limit of %llu directories",
		(unsigned long long)u->limits->max_depth);
}

/* A name that is too deep for a box is also too deep for the limit, and that must be said. */
static bool is_over_depth(const struct upload *u, const char *name, bool is_dir)
{
	return u->limits->max_depth > 0 && manifest_depth(name) + is_dir > u->limits->max_depth;
}

static int scan_unsafe(struct upload *u, const char *name, struct err *err)
{
	bool leaves = !name || *name == '/' || strchr(name, '\\') || strstr(name, "..");

	if (!leaves && is_over_depth(u, name, false))
		return too_deep(u, err);
	u->result.n_skipped++;
	return 0;
}

static int scan_member(struct upload *u, struct extract *x, const struct extract_member *member,
	struct manifest_entry *e, struct ignore_text *text, struct err *err)
{
	struct look look;

	if (member->kind == EXTRACT_OTHER) {
		u->result.n_skipped++;
		return 0;
	}
	if (!member->name || !upload_clean_name(member->name, e->name))
		return scan_unsafe(u, member->name, err);
	e->is_dir = member->kind == EXTRACT_DIR;
	if (!*e->name)
		return 0; /* "./", the top */
	e->mode = e->is_dir ? MODE_DIR : member->is_executable ? MODE_PROGRAM : MODE_FILE;
	bool is_ignore_file = !e->is_dir && streq(e->name, IGNORE_FILE);
	look.size = look.n_head = 0;
	int r = e->is_dir ? 0 : read_member(x, &look, is_ignore_file ? text : NULL, err);
	return r < 0 ? r : enlist(u, e, &look, err);
}

/* Apply the archive's own patterns to its entries, which begin at `first`. */
static int apply_text(
	struct upload *u, size_t first, const struct ignore_text *text, struct err *err)
{
	CLEANUP(ignore_freep) struct ignore *g = ignore_new();
	int r = ignore_add_text(g, text->text, text->size, err);

	if (r < 0)
		return err_wrap(err, r, IGNORE_FILE);
	for (size_t i = first; i < u->manifest.n; i++) {
		struct manifest_entry *e = &u->manifest.at[i];

		r = ignore_match(g, e->name, err);
		if (r < 0)
			return r;
		e->dropped = r > 0;
		u->result.n_ignored += r > 0 && !e->is_dir;
	}
	return 0;
}

static int open_archive(const struct upload *u, const struct upload_source *s,
	enum upload_kind kind, struct extract **ret, struct err *err)
{
	uint64_t max = u->limits->max_bytes;
	struct extract_source source = {
		.fd = s->fd,
		.offset = s->offset,
		.size = s->size,
		.format = kind == UPLOAD_ZIP ? EXTRACT_ZIP : EXTRACT_TAR,
		.max_bytes = max < UINT64_MAX / UPLOAD_READ_FACTOR ? max * UPLOAD_READ_FACTOR : max,
		.max_ratio = u->limits->max_ratio,
	};

	return extract_open(&source, ret, err);
}

static int scan_members(struct upload *u, const struct upload_source *s, enum upload_kind kind,
	size_t group, struct ignore_text *text, struct err *err)
{
	CLEANUP(extract_freep) struct extract *x = NULL;
	struct extract_member member;
	char name[PACK_NAME_MAX + 1];
	int r = open_archive(u, s, kind, &x, err);

	if (r < 0)
		return r;
	for (uint64_t ordinal = 0; (r = extract_next(x, &member, err)) > 0; ordinal++) {
		struct manifest_entry e = { .name = name, .group = group, .ordinal = ordinal };

		if (ordinal >= MANIFEST_ENTRIES_MAX)
			return err_set(err, -E2BIG, "more than %u members in an archive",
				MANIFEST_ENTRIES_MAX);
		r = scan_member(u, x, &member, &e, text, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int too_large(const struct upload *u, struct err *err)
{
	return err_set(err, -EFBIG, "the upload is larger than the limit of %llu bytes",
		(unsigned long long)u->limits->max_bytes);
}

static int scan_archive(struct upload *u, const struct upload_source *s, enum upload_kind kind,
	size_t group, struct err *err)
{
	AUTO_FREE struct ignore_text *text = xnew(struct ignore_text);
	size_t first = u->manifest.n;
	struct err why = { 0 };
	int r = scan_members(u, s, kind, group, text, &why);

	if (r == -EBADMSG)
		return err_set(err, r, "%s can not be read as an archive: %s",
			s->name ? quote(s->name).text : "the body", why.text);
	if (r == -EFBIG)
		return too_large(u, err);
	if (r < 0)
		return err_set(err, r, "%s", why.text);
	return text->is_there ? apply_text(u, first, text, err) : 0;
}

static int read_head(const struct upload_source *s, struct look *look, struct err *err)
{
	size_t want = s->size < sizeof(look->head) ? (size_t)s->size : sizeof(look->head);

	look->size = s->size;
	ssize_t n = fd_pread_full(s->fd, look->head, want, (off_t)s->offset);
	if (n < 0)
		return err_set(err, (int)n, "read the upload: %s", strerror((int)-n));
	if ((size_t)n < want)
		return err_set(err, -EIO, "the upload became shorter meanwhile");
	look->n_head = want;
	return 0;
}

static int scan_plain(
	struct upload *u, const struct upload_source *s, size_t group, struct err *err)
{
	char name[PACK_NAME_MAX + 1];
	struct manifest_entry e = { .name = name, .group = group, .mode = MODE_FILE };
	struct look look;
	size_t n = s->name ? strlen(s->name) : 0;

	if (n == 0 || s->name[n - 1] == '/' || !upload_clean_name(s->name, name) || !*name)
		return scan_unsafe(u, n > 0 ? s->name : NULL, err);
	int r = read_head(s, &look, err);
	return r < 0 ? r : enlist(u, &e, &look, err);
}

static enum upload_kind kind_of(const struct upload_source *s)
{
	return s->kind == UPLOAD_BY_NAME ? upload_kind_of(s->name) : s->kind;
}

static int scan(struct upload *u, const struct upload_source *s, size_t group, struct err *err)
{
	enum upload_kind kind = kind_of(s);

	return kind == UPLOAD_PLAIN ? scan_plain(u, s, group, err)
				    : scan_archive(u, s, kind, group, err);
}

/* What is kept, against the limits. */
static int check_limits(struct upload *u, struct err *err)
{
	for (size_t i = 0; i < u->manifest.n; i++) {
		const struct manifest_entry *e = &u->manifest.at[i];

		if (e->dropped)
			continue;
		if (is_over_depth(u, e->name, e->is_dir))
			return too_deep(u, err);
		if (e->is_dir)
			continue;
		if (e->size > u->limits->max_bytes - u->result.n_bytes)
			return too_large(u, err);
		u->result.n_bytes += e->size;
		if (++u->result.n_files > u->limits->max_files)
			return err_set(err, -E2BIG,
				"the upload has more than the limit of %llu files",
				(unsigned long long)u->limits->max_files);
	}
	return 0;
}

/* --- the second reading --- */

static int changed(struct err *err)
{
	return err_set(err, -EIO, "the upload changed while it was read");
}

static int send_member(
	struct pack_writer *w, struct extract *x, const struct manifest_entry *e, struct err *err)
{
	const void *data = NULL;
	size_t size = 0;
	uint64_t left = e->size;

	if (e->is_dir)
		return sender_dir(w, e->name, e->mode, err);
	int r = sender_file(w, e->name, e->mode, e->size, err);
	while (r == 0 && (r = extract_data(x, &data, &size, err)) > 0) {
		if (size > left)
			return changed(err);
		left -= size;
		r = sender_data(w, data, size, err);
	}
	return r < 0 ? r : left > 0 ? changed(err) : 0;
}

/* Send the entries of one archive, which are those from `*at` on. */
static int send_archive(struct upload *u, const struct upload_source *s, size_t group, size_t *at,
	struct pack_writer *w, struct err *err)
{
	CLEANUP(extract_freep) struct extract *x = NULL;
	struct extract_member member;
	const struct manifest *m = &u->manifest;
	int r = open_archive(u, s, kind_of(s), &x, err);

	for (uint64_t ordinal = 0; r >= 0 && *at < m->n && m->at[*at].group == group; ordinal++) {
		const struct manifest_entry *e = &m->at[*at];

		r = extract_next(x, &member, err);
		if (r == 0)
			return changed(err);
		if (r < 0 || e->ordinal != ordinal)
			continue;
		++*at;
		r = e->dropped ? 0 : send_member(w, x, e, err);
	}
	return r < 0 ? r : 0;
}

static int send_plain(const struct upload_source *s, const struct manifest_entry *e,
	struct pack_writer *w, struct err *err)
{
	if (e->dropped)
		return 0;
	int r = sender_file(w, e->name, e->mode, e->size, err);
	return r < 0 ? r : sender_range(w, s->fd, s->offset, s->size, err);
}

static int send_all(struct upload *u, const struct upload_source *sources, size_t n,
	struct pack_writer *w, struct err *err)
{
	const struct manifest *m = &u->manifest;
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		enum upload_kind kind = kind_of(&sources[i]);

		if (at >= m->n || m->at[at].group != i)
			continue; /* nothing of it was kept */
		r = kind == UPLOAD_PLAIN ? send_plain(&sources[i], &m->at[at++], w, err)
					 : send_archive(u, &sources[i], i, &at, w, err);
	}
	return r;
}

int upload_pack(const struct upload_source *sources, size_t n, const struct upload_limits *limits,
	struct pack_writer *w, struct upload_result *ret, struct err *err)
{
	CLEANUP(upload_fini) struct upload u;
	int r = upload_init(&u, limits, err);

	for (size_t i = 0; i < n && r == 0; i++)
		r = scan(&u, &sources[i], i, err);
	if (r < 0)
		return r;
	u.result.n_skipped += manifest_settle(&u.manifest);
	r = check_limits(&u, err);
	if (r == 0)
		r = send_all(&u, sources, n, w, err);
	if (r == 0)
		*ret = u.result;
	return r;
}

/* --- files that stand in a request --- */

static int bad_inline(size_t index, const char *why, struct err *err)
{
	return err_set(err, -EINVAL, "invalid inline file at index %zu: %s", index, why);
}

static int scan_inline(
	struct upload *u, const struct upload_inline *f, size_t index, struct err *err)
{
	struct manifest_entry e = { .group = index, .size = f->size, .mode = MODE_FILE };
	AUTO_FREE char *name = xstrdup(f->path); /* a path of a request, so it is bounded */

	if (!*name || strlen(name) > PACK_NAME_MAX || strchr(name, '\\') ||
		!pack_name_is_clean(name))
		return bad_inline(index, "its path must be relative, without '..' or '\\'", err);
	e.name = name;
	return manifest_add(&u->manifest, &e, err);
}

static int check_inline(struct upload *u, struct err *err)
{
	(void)manifest_settle(&u->manifest);
	for (size_t i = 0; i < u->manifest.n; i++)
		if (u->manifest.at[i].is_lost)
			return bad_inline(i, "another path makes its directory a file", err);
	return check_limits(u, err);
}

int upload_pack_inline(const struct upload_inline *files, size_t n,
	const struct upload_limits *limits, struct pack_writer *w, struct upload_result *ret,
	struct err *err)
{
	CLEANUP(upload_fini) struct upload u = { .limits = limits };
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = scan_inline(&u, &files[i], i, err);
	if (r == 0)
		r = check_inline(&u, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct manifest_entry *e = &u.manifest.at[i];

		if (!e->dropped)
			r = pack_write_bytes(
				w, e->name, e->mode, files[i].data, files[i].size, err);
	}
	if (r == 0)
		*ret = u.result;
	return r;
}
