/* What is done to the files of a session from outside: uploads, repositories, snapshots,
 * clones. Each is an errand, or a few. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/errand.h"
#include "core/git.h"
#include "core/identity.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session_private.h"
#include "ipc/pack_write.h"

/* --- uploads --- */

struct upload {
	struct session *session;
	struct session_upload what;
	struct upload_limits limits;
	struct upload_result result;
	upload_cb *done;
	void *ctx;
};

static void free_upload(struct upload *u)
{
	for (size_t i = 0; i < u->what.n_sources; i++)
		free((char *)u->what.sources[i].name);
	free(u->what.sources);
	close_fdp(&u->what.fd);
	free(u);
}

static int feed_upload(void *ctx, int fd, struct err *err)
{
	struct upload *u = ctx;
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	int r = upload_pack(u->what.sources, u->what.n_sources, &u->limits, &w, &u->result, err);

	return r < 0 ? r : pack_write_end(&w, err);
}

static void workspace_problem(
	struct problem *p, const struct session *session, int r, const char *text)
{
	if (r == -ENOSPC || r == -EFBIG) {
		(void)problem_set(p, "workspace_cap_exceeded", "%s", text);
		problem_add(p, "limit_mb",
			json_integer(session ? (json_int_t)(session->workspace_bytes >> 20) : 0));
	} else if (r == -E2BIG || r == -EINVAL || r == -EEXIST || r == -ENOTDIR) {
		(void)problem_set(p, "invalid_upload", "%s", text);
	} else if (r == -ECONNRESET || r == -EAGAIN) {
		(void)problem_set(p, "runtime_unavailable", "%s", text);
	} else if (r == -ECANCELED || r == -ENOENT) {
		(void)problem_set(p, "session_not_found", "%s", text);
	} else {
		(void)problem_set(p, "internal_error", "the files could not be changed: %s", text);
	}
}

static void on_uploaded(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct upload *u = ctx;
	struct service *s = u->session->service;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r < 0) {
		workspace_problem(&problem, u->session, r, text);
	} else {
		metrics_add(s->metrics, METRIC_UPLOAD_BYTES, METRICS_LABELS(u->what.kind),
			(double)u->result.n_bytes);
		metrics_add(s->metrics, METRIC_UPLOAD_FILES, METRICS_LABELS(u->what.kind),
			(double)u->result.n_files);
	}
	u->done(u->ctx, &u->result, &problem);
	problem_fini(&problem);
	free_upload(u);
}

static bool is_usable(struct session *session, struct problem *p)
{
	if (session->is_ending)
		(void)problem_set(p, "session_not_found", "the session is being deleted");
	else if (session->is_lost)
		(void)problem_set(p, "workspace_lost",
			"the files of this session were lost when the keeper ended; make a new one");
	return p->status == 0;
}

void session_put_files(
	struct session *session, struct session_upload *upload, upload_cb *done, void *ctx)
{
	const struct settings *c = session->service->settings;
	struct upload *u = xnew(struct upload);
	struct problem problem = { 0 };
	struct errand_plan plan = { .feed = feed_upload, .feed_ctx = u, .capture_fd = -1 };

	*u = (struct upload){ .session = session, .what = *upload, .done = done, .ctx = ctx };
	u->limits = (struct upload_limits){
		.max_bytes = session->workspace_bytes,
		.max_files = c->max_upload_files,
		.max_depth = c->max_upload_depth,
		.max_ratio = c->max_upload_ratio,
		.block_binaries = c->block_binaries,
		.ignore = c->upload_ignore,
	};
	if (is_usable(session, &problem)) {
		errand_start(session, &plan, on_uploaded, u);
		return;
	}
	done(ctx, &u->result, &problem);
	problem_fini(&problem);
	free_upload(u);
}

/* --- snapshots: a workspace as a pack stream in a file --- */

struct snap {
	struct session *session;
	struct snapshot_row row;
	snapshot_cb *done;
	void *ctx;
};

static void snapshot_path(const struct session *session, const char *id, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/snapshots/%s/%s", session->row.user_id, session->row.id, id);
}

static int make_snapshot_file(const struct session *session, const char *id)
{
	struct err err = { 0 };
	char path[256];

	(void)snprintf(
		path, sizeof(path), "%s/snapshots/%s", session->row.user_id, session->row.id);
	AUTO_FREE char *dir = service_path(session->service, path);
	if (path_make_dirs(dir, 0700, &err) < 0)
		return err.code;
	snapshot_path(session, id, path, sizeof(path));
	int fd = openat(session->service->data_fd, path,
		O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static void remove_snapshot_file(const struct session *session, const char *id)
{
	char path[256];

	snapshot_path(session, id, path, sizeof(path));
	(void)unlinkat(session->service->data_fd, path, 0);
}

static void end_snap(struct snap *s, struct problem *problem)
{
	s->done(s->ctx, &s->row, problem);
	problem_fini(problem);
	row_fini(&snapshot_table, &s->row);
	free(s);
}

static void on_snap_stored(void *ctx, int r)
{
	struct snap *s = ctx;
	struct problem problem = { 0 };

	s->session->service->n_pending--;
	if (r < 0) {
		remove_snapshot_file(s->session, s->row.id);
		(void)problem_set(&problem, "store_unavailable", "Failed to create snapshot");
	}
	end_snap(s, &problem);
}

/* Those beyond the number or size that a session may have, oldest first. */
static void on_snaps_listed(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct snap *s = ctx;
	const struct settings *c = s->session->service->settings;
	const struct snapshot_row *all = rows;
	struct store_batch *b = store_batch_new(s->session->service->store);
	uint64_t bytes = (uint64_t)s->row.size_bytes;

	(void)total;
	for (size_t i = 0; r == 0 && i < n; i++) {
		bytes += (uint64_t)all[i].size_bytes;
		if (i + 1 < c->snapshot_max_count && bytes <= c->snapshot_max_size_mb << 20)
			continue;
		remove_snapshot_file(s->session, all[i].id);
		store_batch_delete(b, &snapshot_table, &all[i]);
	}
	store_batch_insert(b, &snapshot_table, &s->row);
	store_commit(b, on_snap_stored, s);
}

static void list_snapshots(struct session *session, store_rows_cb *done, void *ctx)
{
	struct query q = { .table = &snapshot_table, .n_filters = 1, .sort = "created_ns" };

	q.descending = true;
	q.filters[0] = (struct filter){ .column = "session_id", .op = FILTER_EQ };
	q.filters[0].text = session->row.id;
	session->service->n_pending++;
	store_list(session->service->store, &q, done, ctx);
}

static void on_snapped(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct snap *s = ctx;
	struct problem problem = { 0 };

	if (r == 0) {
		s->row.size_bytes = (int64_t)n_bytes;
		list_snapshots(s->session, on_snaps_listed, s);
		return;
	}
	remove_snapshot_file(s->session, s->row.id);
	if (r == -EFBIG)
		(void)problem_set(&problem, "snapshot_too_large",
			"the workspace is larger than a snapshot may be");
	else
		workspace_problem(&problem, s->session, r, text);
	end_snap(s, &problem);
}

static bool is_quiet(struct session *session, struct problem *p)
{
	if (!is_usable(session, p))
		return false;
	if (session->n_runs == 0)
		return true;
	(void)problem_set(
		p, "session_has_active_runs", "the session has %zu active runs", session->n_runs);
	problem_add(p, "active_runs", json_integer((json_int_t)session->n_runs));
	problem_add(p, "session_id", json_string(session->row.id));
	return false;
}

static void fill_snapshot_row(struct snap *s)
{
	char uuid[UUID_SIZE + 1];
	char hex[33];
	char id[32];
	char at[DATE_SIZE + 1];

	uuid_make(uuid);
	uuid_to_hex(uuid, hex);
	(void)snprintf(id, sizeof(id), "snap-%.12s", hex);
	s->row.created_ns = (int64_t)clock_realtime_ns();
	date_format((uint64_t)s->row.created_ns, at);
	s->row.id = xstrdup(id);
	s->row.session_id = xstrdup(s->session->row.id);
	s->row.user_id = xstrdup(s->session->row.user_id);
	s->row.created_at = xstrdup(at);
}

void session_snapshot(struct session *session, snapshot_cb *done, void *ctx)
{
	struct snap *s = xnew(struct snap);
	struct problem problem = { 0 };
	struct errand_plan plan = {
		.capture_fd = -1,
		.capture_max = session->service->settings->snapshot_max_size_mb << 20,
	};

	*s = (struct snap){ .session = session, .done = done, .ctx = ctx };
	if (!is_quiet(session, &problem)) {
		end_snap(s, &problem);
		return;
	}
	fill_snapshot_row(s);
	plan.capture_fd = make_snapshot_file(session, s->row.id);
	if (plan.capture_fd < 0) {
		(void)problem_set(&problem, "internal_error", "Failed to create snapshot");
		end_snap(s, &problem);
		return;
	}
	errand_start(session, &plan, on_snapped, s);
}

/* --- back from one --- */

struct restoring {
	struct session *session;
	int fd;
	session_cb *done;
	void *ctx;
};

static int feed_file(void *ctx, int fd, struct err *err)
{
	const struct restoring *r = ctx;
	off_t at = 0;
	struct stat st;

	if (fstat(r->fd, &st) < 0)
		return err_errno(err, "look at the snapshot");
	while (at < st.st_size) {
		ssize_t n = sendfile(fd, r->fd, &at, (size_t)(st.st_size - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "send the snapshot");
		if (n == 0)
			return err_set(err, -EIO, "the snapshot shrank");
	}
	return 0;
}

static void on_restored(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct restoring *w = ctx;
	struct problem problem = { 0 };

	(void)n_bytes;
	close_fdp(&w->fd);
	if (r < 0)
		workspace_problem(&problem, w->session, r, text);
	w->done(w->ctx, w->session, &problem);
	problem_fini(&problem);
	free(w);
}

static void restore_from(struct session *session, int fd, session_cb *done, void *ctx)
{
	struct restoring *w = xnew(struct restoring);
	struct errand_plan plan = {
		.feed = feed_file,
		.feed_ctx = w,
		.clears = true,
		.capture_fd = -1,
	};

	*w = (struct restoring){ .session = session, .fd = fd, .done = done, .ctx = ctx };
	errand_start(session, &plan, on_restored, w);
}

/* "snap-" and twelve digits: nothing else becomes part of a path. */
static bool is_snapshot_id(const char *id)
{
	const char *hex = str_after(id, "snap-");

	return hex && str_is_hex(hex, 12);
}

void session_restore(struct session *session, const char *snapshot_id, session_cb *done, void *ctx)
{
	struct problem problem = { 0 };
	char path[256];
	int fd = -1;

	if (is_quiet(session, &problem)) {
		snapshot_path(session, snapshot_id, path, sizeof(path));
		if (is_snapshot_id(snapshot_id))
			fd = openat(
				session->service->data_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			restore_from(session, fd, done, ctx);
			return;
		}
		(void)problem_set(
			&problem, "snapshot_not_found", "Snapshot not found: %.64s", snapshot_id);
	}
	done(ctx, NULL, &problem);
	problem_fini(&problem);
}

struct removal {
	struct service *service;
	bool removed;
	snapshot_removed_cb *done;
	void *ctx;
};

static void on_snap_removed(void *ctx, int r)
{
	AUTO_FREE struct removal *w = ctx;
	struct problem problem = { 0 };

	w->service->n_pending--;
	if (r < 0)
		(void)problem_set(
			&problem, "store_unavailable", "the snapshot could not be removed");
	w->done(w->ctx, w->removed, &problem);
	problem_fini(&problem);
}

void session_remove_snapshot(
	struct session *session, const char *snapshot_id, snapshot_removed_cb *done, void *ctx)
{
	struct service *s = session->service;
	struct removal *w = xnew(struct removal);
	char path[256];

	*w = (struct removal){ .service = s, .done = done, .ctx = ctx };
	snapshot_path(session, snapshot_id, path, sizeof(path));
	w->removed = is_snapshot_id(snapshot_id) && unlinkat(s->data_fd, path, 0) == 0;
	struct store_batch *b = store_batch_new(s->store);
	struct snapshot_row key = { .session_id = session->row.id, .id = (char *)snapshot_id };
	store_batch_delete(b, &snapshot_table, &key);
	s->n_pending++;
	store_commit(b, on_snap_removed, w);
}

/* --- clones --- */

struct cloning {
	struct session *from;
	struct session *to;
	int fd; /* the files, without a name */
	struct identity who;
	session_cb *done;
	void *ctx;
};

static void end_cloning(struct cloning *c, struct problem *problem)
{
	close_fdp(&c->fd);
	if (problem->status && c->to)
		session_delete(TAKE(c->to), NULL, NULL);
	c->done(c->ctx, c->to, problem);
	problem_fini(problem);
	free(c);
}

static void on_clone_filled(void *ctx, struct session *session, struct problem *problem)
{
	(void)session;
	end_cloning(ctx, problem);
}

static void on_clone_made(void *ctx, struct session *session, struct problem *problem)
{
	struct cloning *c = ctx;

	c->to = session;
	if (problem->status)
		end_cloning(c, problem);
	else
		restore_from(session, take_fd(&c->fd), on_clone_filled, c);
}

static void on_clone_read(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct cloning *c = ctx;
	struct problem problem = { 0 };
	struct session_wish wish = {
		.who = &c->who, .source = c->from->row.source, .like = c->from
	};

	(void)n_bytes;
	if (r < 0) {
		workspace_problem(&problem, c->from, r, text);
		end_cloning(c, &problem);
		return;
	}
	session_create(c->from->service, &wish, on_clone_made, c);
}

static int nameless_file(const struct service *s)
{
	return openat(s->data_fd, "tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
}

void session_clone(struct session *session, const struct identity *who, session_cb *done, void *ctx)
{
	struct cloning *c = xnew(struct cloning);
	struct problem problem = { 0 };
	struct errand_plan plan = { .capture_max = session->workspace_bytes + (16u << 20) };

	*c = (struct cloning){ .from = session, .fd = -1, .who = *who, .done = done, .ctx = ctx };
	if (is_quiet(session, &problem)) {
		c->fd = nameless_file(session->service);
		plan.capture_fd = c->fd < 0 ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
		if (plan.capture_fd < 0)
			(void)problem_set(&problem, "internal_error", "Failed to clone session");
	}
	if (problem.status)
		end_cloning(c, &problem);
	else
		errand_start(session, &plan, on_clone_read, c);
}

/* --- repositories --- */

struct fetch {
	struct session *session;
	const json_t *git;
	char *dir;
	char commit[GIT_COMMIT_SIZE + 1];
	session_cb *done;
	void *ctx;
};

static void end_fetch(struct fetch *f, struct problem *problem)
{
	const char *name = strrchr(f->dir, '/') + 1;
	AUTO_FD tmp =
		openat(f->session->service->data_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (tmp >= 0)
		(void)fd_remove_tree(tmp, name);
	free(f->dir);
	f->done(f->ctx, f->session, problem);
	problem_fini(problem);
	free(f);
}

static int fetch_in_thread(void *ctx, int fd, struct err *err)
{
	struct fetch *f = ctx;
	const struct settings *c = f->session->service->settings;
	const char *patch = json_string_value(json_object_get(f->git, "patch"));
	struct git_request request = {
		.url = json_string_value(json_object_get(f->git, "url")),
		.ref = json_string_value(json_object_get(f->git, "ref")),
		.depth = (unsigned)json_integer_value(json_object_get(f->git, "depth")),
		.patch = patch,
		.patch_size = patch ? strlen(patch) : 0,
	};
	struct git_limits limits = {
		.allow = c->git_allow,
		.max_bytes = c->git_max_mb << 20,
		.timeout_sec = c->git_timeout_sec,
	};

	(void)fd;
	return git_fetch(&request, &limits, f->dir, f->commit, err);
}

static int feed_tree(void *ctx, int fd, struct err *err)
{
	const struct fetch *f = ctx;
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	AUTO_FD dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "open the repository");
	int r = pack_write_tree(&w, "", dir, err);
	return r < 0 ? r : pack_write_end(&w, err);
}

static void on_tree_in(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct fetch *f = ctx;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r < 0)
		workspace_problem(&problem, f->session, r, text);
	end_fetch(f, &problem);
}

static void on_fetched(void *ctx, int r, const struct err *err)
{
	struct fetch *f = ctx;
	struct problem problem = { 0 };
	struct errand_plan plan = { .feed = feed_tree, .feed_ctx = f, .capture_fd = -1 };

	if (r == 0) {
		errand_start(f->session, &plan, on_tree_in, f);
		return;
	}
	(void)problem_set(&problem, r == -EINVAL || r == -EPERM ? "invalid_git" : "git_failed",
		"git: %s", err->text);
	end_fetch(f, &problem);
}

void session_fetch_git(struct session *session, const json_t *git, session_cb *done, void *ctx)
{
	struct fetch *f = xnew(struct fetch);
	struct problem problem = { 0 };
	char name[64];

	*f = (struct fetch){ .session = session, .git = git, .done = done, .ctx = ctx };
	(void)snprintf(name, sizeof(name), "tmp/git-%s", session->workspace);
	f->dir = service_path(session->service, name);
	if (mkdir(f->dir, 0700) < 0) {
		(void)problem_set(&problem, "internal_error", "no room for the repository");
		end_fetch(f, &problem);
		return;
	}
	feeder_start(session->service->loop, -1, fetch_in_thread, on_fetched, f);
}
