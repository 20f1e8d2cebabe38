/* Twice through the spool: once for names and sizes, to decide in the order of paths what is
 * kept; then to unpack that into a new directory, which is renamed when it is whole. The index
 * appears last and by rename, so it decides whether the work was done. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/artifact_private.h"
#include "core/manifest.h"
#include "ipc/unpack.h"

/* --- the first reading: what is there --- */

struct scan {
	struct pack_sink sink; /* first: a sink is a scan */
	struct manifest manifest;
	struct manifest_entry entry; /* the one whose bytes pass */
	char name[PACK_NAME_MAX + 1];
	enum pack_kind kind;
	uint64_t ordinal;
	uint64_t n_skipped;
};

static int scan_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct scan *s = (struct scan *)sink;

	(void)err;
	s->kind = e->kind;
	s->entry = (struct manifest_entry){ .name = s->name, .size = e->size };
	(void)snprintf(s->name, sizeof(s->name), "%s", e->name);
	return 0;
}

static int scan_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	(void)sink;
	(void)data;
	(void)size;
	(void)err;
	return 0;
}

static bool is_utf8(const char *text)
{
	AUTO_JSON *json = json_string(text);

	return json;
}

static bool is_wanted(const struct scan *s)
{
	return s->kind == PACK_FILE && is_utf8(s->name) && artifact_path_is_safe(s->name);
}

static int scan_finish(struct pack_sink *sink, struct err *err)
{
	struct scan *s = (struct scan *)sink;

	s->entry.ordinal = s->ordinal++;
	if (s->kind == PACK_DIR)
		return 0;
	int r = is_wanted(s) ? manifest_add(&s->manifest, &s->entry, err) : -E2BIG;
	if (r != -E2BIG)
		return r;
	s->n_skipped++; /* also what the manifest has no room for */
	return 0;
}

static void scan_fini(struct scan *s)
{
	manifest_fini(&s->manifest);
}

/* All entries before that were given. */
static bool is_broken(int r)
{
	return r == -EBADMSG || r == -E2BIG;
}

/* --- what is kept --- */

static int compare_names(const void *a, const void *b)
{
	const struct manifest_entry *x = *(struct manifest_entry *const *)a;
	const struct manifest_entry *y = *(struct manifest_entry *const *)b;

	return strcmp(x->name, y->name);
}

/* What stays, sorted by path. The caller frees it. */
static struct manifest_entry **sort_kept(struct manifest *m, size_t *ret_n)
{
	struct manifest_entry **sorted = xcalloc(m->n + 1, sizeof(*sorted));
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		if (!m->at[i].dropped)
			sorted[n++] = &m->at[i];
	qsort(sorted, n, sizeof(*sorted), compare_names);
	*ret_n = n;
	return sorted;
}

static void apply_limits(
	struct manifest *m, const struct artifact_limits *limits, struct artifact_summary *sum)
{
	size_t n = 0;
	AUTO_FREE struct manifest_entry **sorted = sort_kept(m, &n);
	uint64_t max = limits->max_run_bytes < limits->max_user_bytes_left
			       ? limits->max_run_bytes
			       : limits->max_user_bytes_left;

	for (size_t i = 0; i < n; i++) {
		struct manifest_entry *e = sorted[i];

		if (e->size > limits->max_file_bytes || e->size > max - sum->n_bytes ||
			sum->n_files >= ARTIFACT_FILES_MAX) {
			e->dropped = true;
			sum->n_skipped++;
			continue;
		}
		sum->n_bytes += e->size;
		sum->n_files++;
	}
}

/* --- the second reading --- */

struct copy {
	struct pack_sink sink; /* first: a sink is a copy */
	struct unpack unpack;
	const struct manifest *manifest;
	size_t next; /* entry of the manifest to come */
	uint64_t ordinal;
	bool is_kept;
	struct digest *digest;
	size_t n_head;
	char head[MIME_HEAD_SIZE];
	json_t **rows; /* one for each entry of the manifest, NULL for what is dropped */
};

static int copy_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct copy *c = (struct copy *)sink;
	const struct manifest *m = c->manifest;
	bool is_next = c->next < m->n && m->at[c->next].ordinal == c->ordinal;
	struct pack_entry plain = *e;

	c->ordinal++;
	c->is_kept = is_next && !m->at[c->next].dropped;
	c->next += is_next;
	if (!c->is_kept)
		return 0;
	c->digest = digest_new();
	c->n_head = 0;
	plain.mode = 0600; /* nobody but the server reads them */
	return c->unpack.sink.begin(&c->unpack.sink, &plain, err);
}

static int copy_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	struct copy *c = (struct copy *)sink;
	size_t room = sizeof(c->head) - c->n_head;

	if (!c->is_kept)
		return 0;
	digest_add(c->digest, data, size);
	memcpy(c->head + c->n_head, data, size < room ? size : room);
	c->n_head += size < room ? size : room;
	return c->unpack.sink.data(&c->unpack.sink, data, size, err);
}

static int copy_finish(struct pack_sink *sink, struct err *err)
{
	struct copy *c = (struct copy *)sink;
	char hex[DIGEST_HEX_SIZE + 1];
	char mime[MIME_SIZE];

	if (!c->is_kept)
		return 0;
	const struct manifest_entry *e = &c->manifest->at[c->next - 1];
	digest_end(c->digest, hex);
	digest_free(TAKE(c->digest));
	mime_of(e->name, c->head, c->n_head, mime);
	json_t *row = json_pack("{ss sI ss ss}", "path", e->name, "size", (json_int_t)e->size,
		"mime", mime, "sha256", hex);
	if (!row)
		return err_set(err, -ENOMEM, "no memory for the list of artifacts");
	c->rows[c->next - 1] = row;
	return c->unpack.sink.finish(&c->unpack.sink, err);
}

static struct copy *copy_new(const struct manifest *m, int dir_fd)
{
	struct copy *c = xnew(struct copy);

	c->sink = (struct pack_sink){ copy_begin, copy_data, copy_finish };
	c->manifest = m;
	c->rows = xcalloc(m->n + 1, sizeof(*c->rows));
	unpack_init(&c->unpack, dir_fd, UINT64_MAX);
	return c;
}

static void copy_free(struct copy *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->manifest->n; i++)
		json_decref(c->rows[i]);
	free(c->rows);
	digest_free(c->digest);
	unpack_fini(&c->unpack);
	free(c);
}

DEFINE_CLEANUP(struct copy, copy_free)

/* --- the index --- */

static json_t *list_rows(struct manifest *m, json_t **rows)
{
	size_t n = 0;
	AUTO_FREE struct manifest_entry **sorted = sort_kept(m, &n);
	json_t *files = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append(files, rows[sorted[i] - m->at]);
	return files;
}

static int write_index(
	int run_dir_fd, json_t *files, const struct artifact_summary *sum, struct err *err)
{
	AUTO_JSON *json = json_pack("{sO sI sb}", "files", files, "skipped",
		(json_int_t)sum->n_skipped, "cut_short", sum->cut_short);
	AUTO_FREE char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	AUTO_FD fd = openat(run_dir_fd, ARTIFACT_INDEX_NEW,
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (!text)
		return err_set(err, -ENOMEM, "no memory for " ARTIFACT_INDEX);
	if (fd < 0)
		return err_errno(err, "make " ARTIFACT_INDEX_NEW);
	int r = fd_write_full(fd, text, strlen(text));
	if (r < 0)
		return err_set(err, r, "write " ARTIFACT_INDEX_NEW ": %s", strerror(-r));
	/* An empty index after a power failure would be worse than none. */
	if (fdatasync(fd) < 0)
		return err_errno(err, "write " ARTIFACT_INDEX_NEW);
	if (renameat(run_dir_fd, ARTIFACT_INDEX_NEW, run_dir_fd, ARTIFACT_INDEX) < 0)
		return err_errno(err, "make " ARTIFACT_INDEX);
	return 0;
}

/* The work was done before: say how it went. */
static int recall(int run_dir_fd, struct artifact_summary *ret, struct err *err)
{
	AUTO_JSON *json = NULL;
	struct artifact_summary sum = { 0 };
	size_t i;
	const json_t *file;
	int r = artifact_load(run_dir_fd, &json, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(json, "files"), i, file)
	{
		sum.n_files++;
		sum.n_bytes += (uint64_t)json_integer_value(json_object_get(file, "size"));
	}
	sum.n_skipped = (uint64_t)json_integer_value(json_object_get(json, "skipped"));
	sum.cut_short = json_is_true(json_object_get(json, "cut_short"));
	*ret = sum;
	return 0;
}

/* --- all together --- */

static int make_new_dir(int run_dir_fd, struct err *err)
{
	int r = fd_remove_tree(run_dir_fd, ARTIFACT_DIR_NEW);

	if (r < 0)
		return err_set(err, r, "remove " ARTIFACT_DIR_NEW ": %s", strerror(-r));
	if (mkdirat(run_dir_fd, ARTIFACT_DIR_NEW, 0700) < 0)
		return err_errno(err, "make " ARTIFACT_DIR_NEW);
	int fd = openat(
		run_dir_fd, ARTIFACT_DIR_NEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "open " ARTIFACT_DIR_NEW) : fd;
}

static int rename_new_dir(int run_dir_fd, struct err *err)
{
	/* There is no index yet, so one that is here is of a predecessor that died. */
	int r = fd_remove_tree(run_dir_fd, ARTIFACT_DIR);

	if (r < 0)
		return err_set(err, r, "remove " ARTIFACT_DIR ": %s", strerror(-r));
	if (renameat(run_dir_fd, ARTIFACT_DIR_NEW, run_dir_fd, ARTIFACT_DIR) < 0)
		return err_errno(err, "make " ARTIFACT_DIR);
	return 0;
}

static int copy_kept(int run_dir_fd, int capture_fd, struct manifest *m, bool cut_short,
	json_t **ret_files, struct err *err)
{
	AUTO_FD dir = make_new_dir(run_dir_fd, err);

	if (dir < 0)
		return dir;
	CLEANUP(copy_freep) struct copy *c = copy_new(m, dir);
	int r = pack_read_file(capture_fd, &c->sink, err);
	if (r < 0 && !(is_broken(r) && cut_short))
		return r;
	if (c->next != m->n)
		return err_set(err, -EIO, ARTIFACT_CAPTURE " changed while it was read");
	*ret_files = list_rows(m, c->rows);
	return 0;
}

static int unpack_capture(int run_dir_fd, int capture_fd, const struct artifact_limits *limits,
	struct artifact_summary *ret, struct err *err)
{
	CLEANUP(scan_fini) struct scan s = { .sink = { scan_begin, scan_data, scan_finish } };
	AUTO_JSON *files = NULL;
	struct artifact_summary sum = { 0 };
	int r = pack_read_file(capture_fd, &s.sink, err);

	if (r < 0 && !is_broken(r))
		return r;
	sum.cut_short = r < 0;
	sum.n_skipped = s.n_skipped + manifest_settle(&s.manifest);
	apply_limits(&s.manifest, limits, &sum);
	r = copy_kept(run_dir_fd, capture_fd, &s.manifest, sum.cut_short, &files, err);
	if (r == 0)
		r = rename_new_dir(run_dir_fd, err);
	if (r == 0)
		r = write_index(run_dir_fd, files, &sum, err);
	if (r == 0)
		*ret = sum;
	return r;
}

int artifact_unpack(int run_dir_fd, const struct artifact_limits *limits,
	struct artifact_summary *ret, struct err *err)
{
	int r = recall(run_dir_fd, ret, err);

	if (r == -ENOENT) {
		AUTO_FD fd =
			openat(run_dir_fd, ARTIFACT_CAPTURE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 && errno == ENOENT) {
			*ret = (struct artifact_summary){ 0 };
			return 0;
		}
		if (fd < 0)
			return err_errno(err, "open " ARTIFACT_CAPTURE);
		r = unpack_capture(run_dir_fd, fd, limits, ret, err);
	}
	if (r == 0 && unlinkat(run_dir_fd, ARTIFACT_CAPTURE, 0) < 0 && errno != ENOENT)
		return err_errno(err, "remove " ARTIFACT_CAPTURE);
	return r;
}
