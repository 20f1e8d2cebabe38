/* What is past its time goes: the output and artifacts of runs, later their rows, keys that
 * were used long ago, and old audit files. A bounded number at a time, so that a large backlog
 * does not stop everything else; the rest goes with the next sweep, which is then soon. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/feeder.h"
#include "core/quota.h"
#include "core/run.h"
#include "core/service.h"
#include "store/record.h"

#define ROWS_AT_ONCE 200

struct sweep {
	struct turn turn; /* first: a turn is a sweep */
	struct service *service;
	service_sweep_cb *done;
	void *ctx;
	uint64_t now_sec;
	json_int_t n_runs, n_rows, n_keys, n_audits;
	char *victims[ROWS_AT_ONCE]; /* "<user>/runs/<id>": directories for the thread */
	size_t n_victims;
	int r;
};

void service_take_turn(struct service *s, struct turn *turn)
{
	struct turn **at = &s->turns;

	while (*at)
		at = &(*at)->next;
	*at = turn;
	if (s->turns == turn)
		turn->begin(turn);
}

void service_end_turn(struct service *s, struct turn *turn)
{
	s->turns = turn->next;
	if (s->turns)
		s->turns->begin(s->turns);
}

static void finish(struct sweep *w)
{
	struct service *s = w->service;
	json_t *counts = json_pack("{s:I,s:I,s:I,s:I}", "runs_cleared", w->n_runs, "runs_removed",
		w->n_rows, "idempotency_removed", w->n_keys, "audit_files_removed", w->n_audits);

	if (w->r == 0 && (w->n_runs == ROWS_AT_ONCE || w->n_keys == ROWS_AT_ONCE))
		s->next_sweep_ns = 0;
	w->done(w->ctx, w->r, counts);
	for (size_t i = 0; i < w->n_victims; i++)
		free(w->victims[i]);
	AUTO_FREE struct sweep *over = w;
	service_end_turn(s, &over->turn);
}

static int remove_dirs(void *ctx, int fd, struct err *err)
{
	struct sweep *w = ctx;

	(void)fd;
	(void)err;
	for (size_t i = 0; i < w->n_victims; i++) {
		char *slash = strrchr(w->victims[i], '/');

		*slash = '\0';
		AUTO_FD dir = openat(w->service->data_fd, w->victims[i],
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0)
			(void)fd_remove_tree(dir, slash + 1);
	}
	return 0;
}

static void on_dirs_removed(void *ctx, int r, const struct err *err)
{
	(void)r;
	(void)err;
	finish(ctx);
}

static void on_keys_removed(void *ctx, int r)
{
	struct sweep *w = ctx;

	w->service->n_pending--;
	w->r = w->r < 0 ? w->r : r;
	w->n_audits = (json_int_t)audit_sweep(w->service->audit);
	feeder_start(w->service->loop, -1, remove_dirs, on_dirs_removed, w);
}

static void on_keys(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct sweep *w = ctx;
	const struct idempotency_row *all = rows;
	struct store_batch *b = store_batch_new(w->service->store);

	(void)total;
	for (size_t i = 0; r == 0 && i < n; i++)
		store_batch_delete(b, &idempotency_table, &all[i]);
	w->n_keys = r == 0 ? (json_int_t)n : 0;
	w->r = w->r < 0 ? w->r : r;
	store_commit(b, on_keys_removed, w);
}

static void list_keys(struct sweep *w)
{
	struct query q = { .table = &idempotency_table, .n_filters = 1, .sort = "created_at" };

	q.limit = ROWS_AT_ONCE;
	q.filters[0] = (struct filter){ .column = "created_at", .op = FILTER_LE };
	q.filters[0].number = (int64_t)(w->now_sec - w->service->settings->idempotency_ttl_sec);
	store_list(w->service->store, &q, on_keys, w);
}

static void on_runs_cleared(void *ctx, int r)
{
	struct sweep *w = ctx;

	w->r = w->r < 0 ? w->r : r;
	list_keys(w);
}

/* The files go now; the row stays until it is too old itself. */
static void clear_run(struct sweep *w, struct store_batch *b, const struct run_row *row)
{
	uint64_t keep = w->service->settings->run_retention_hours * 3600;
	bool is_old = (uint64_t)row->created_ns / 1000000000 + keep <= w->now_sec;
	char path[160];

	quota_count_removed(b, row);
	(void)snprintf(path, sizeof(path), "%s/runs/%s", row->user_id, row->id);
	w->victims[w->n_victims++] = xstrdup(path);
	w->n_runs++;
	if (is_old) {
		store_batch_delete(b, &run_table, row);
		w->n_rows++;
		return;
	}
	struct run_row cleared = *row; /* borrowed texts */
	cleared.artifact_bytes = 0;
	cleared.frames = NULL;
	cleared.expires_sec = (int64_t)((uint64_t)row->created_ns / 1000000000 + keep);
	store_batch_put(b, &run_table, &cleared);
}

static void on_runs(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct sweep *w = ctx;
	const struct run_row *all = rows;
	struct store_batch *b = store_batch_new(w->service->store);

	(void)total;
	w->r = r;
	for (size_t i = 0; r == 0 && i < n; i++)
		clear_run(w, b, &all[i]);
	store_commit(b, on_runs_cleared, w);
}

static void begin(struct turn *turn)
{
	struct sweep *w = (struct sweep *)turn;
	struct service *s = w->service;
	struct query q = { .table = &run_table, .n_filters = 1, .sort = "expires_sec" };

	if (s->is_closing) {
		w->r = -ECANCELED;
		finish(w);
		return;
	}
	w->now_sec = (uint64_t)time(NULL);
	q.limit = ROWS_AT_ONCE;
	q.filters[0] = (struct filter){ .column = "expires_sec", .op = FILTER_LE };
	q.filters[0].number = (int64_t)w->now_sec;
	s->n_pending++;
	store_list(s->store, &q, on_runs, w);
}

void service_sweep(struct service *s, service_sweep_cb *done, void *ctx)
{
	struct sweep *w = xnew(struct sweep);

	*w = (struct sweep){ .turn.begin = begin, .service = s, .done = done, .ctx = ctx };
	service_take_turn(s, &w->turn);
}
