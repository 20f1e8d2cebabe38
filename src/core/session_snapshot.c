/* Snapshots: the workspace of a session as a pack stream in a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/discard.h"
#include "base/err.h"
#include "base/path.h"
#include "base/str.h"
#include "core/errand.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session_private.h"

struct snap {
	struct session *session;
	struct snapshot_row row;
	char **victims; /* the ids of those that make room for it */
	size_t n_victims;
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
	(void)discard_file(session->service->data_fd, path);
}

static void end_snap(struct snap *s, struct problem *problem)
{
	s->done(s->ctx, &s->row, problem);
	problem_fini(problem);
	row_fini(&snapshot_table, &s->row);
	for (size_t i = 0; i < s->n_victims; i++)
		free(s->victims[i]);
	free(s->victims);
	free(s);
}

static void on_snap_stored(void *ctx, int r)
{
	struct snap *s = ctx;
	struct session *session = s->session;
	struct problem problem = { 0 };

	session->service->n_pending--;
	for (size_t i = 0; r == 0 && i < s->n_victims; i++)
		remove_snapshot_file(session, s->victims[i]);
	if (r < 0) {
		remove_snapshot_file(session, s->row.id);
		(void)problem_set(&problem, "store_unavailable", "Failed to create snapshot");
	}
	end_snap(s, &problem);
	session->n_work--;
	session_check_ending(session);
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
	s->victims = xcalloc(n + 1, sizeof(*s->victims));
	for (size_t i = 0; r == 0 && i < n; i++) {
		bytes += (uint64_t)all[i].size_bytes;
		if (i + 1 < c->snapshot_max_count && bytes <= c->snapshot_max_size_mb << 20)
			continue;
		s->victims[s->n_victims++] = xstrdup(all[i].id);
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
		s->session->n_work++;
		list_snapshots(s->session, on_snaps_listed, s);
		return;
	}
	remove_snapshot_file(s->session, s->row.id);
	session_copy_problem(&problem, s->session,
		&(struct session_copy){ "snapshot", "snapshot_too_large",
			s->session->service->settings->snapshot_max_size_mb },
		r, text);
	end_snap(s, &problem);
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
	if (!session_is_quiet(session, &problem) ||
		service_check_space(session->service, &problem) < 0) {
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

/* "snap-" and twelve digits: nothing else becomes part of a path. */
static bool is_snapshot_id(const char *id)
{
	const char *hex = str_after(id, "snap-");

	return hex && str_is_hex(hex, 12);
}

int session_open_snapshot(const struct session *session, const char *snapshot_id)
{
	char path[256];

	if (!is_snapshot_id(snapshot_id))
		return -1;
	snapshot_path(session, snapshot_id, path, sizeof(path));
	return openat(session->service->data_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
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
	w->removed = is_snapshot_id(snapshot_id) && discard_file(s->data_fd, path) == 0;
	struct store_batch *b = store_batch_new(s->store);
	struct snapshot_row key = { .session_id = session->row.id, .id = (char *)snapshot_id };
	store_batch_delete(b, &snapshot_table, &key);
	s->n_pending++;
	store_commit(b, on_snap_removed, w);
}
