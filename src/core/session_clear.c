/* The artifacts of a session's runs, when it is deleted: a page of runs at a time, first the files,
 * in a thread, and then what the rows say of them. A session whose row is still there after a
 * death in between is deleted again, and nothing is counted twice. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/feeder.h"
#include "core/quota.h"
#include "core/service.h"
#include "core/session_private.h"

#define RUNS_AT_ONCE 200

struct clearing {
	struct turn turn; /* first: a turn is a clearing */
	struct session *session;
	session_cleared_cb *done;
	void *ctx;
	uint64_t offset;
	char *victims[RUNS_AT_ONCE]; /* "<user>/runs/<id>" */
	size_t n_victims;
	struct store_batch *batch; /* what their rows say afterwards */
};

static void list_page(struct clearing *c);

static void free_victims(struct clearing *c)
{
	while (c->n_victims > 0)
		free(c->victims[--c->n_victims]);
}

static void end(struct clearing *c, int r)
{
	struct service *s = c->session->service;

	free_victims(c);
	store_batch_free(c->batch);
	c->done(c->ctx, r); /* which may free the session */
	AUTO_FREE struct clearing *over = c;
	service_end_turn(s, &over->turn);
}

static void on_stored(void *ctx, int r)
{
	struct clearing *c = ctx;
	bool was_last = c->n_victims < RUNS_AT_ONCE;

	free_victims(c);
	c->offset += RUNS_AT_ONCE;
	if (r < 0 || was_last)
		end(c, r);
	else
		list_page(c);
}

static int remove_files(void *ctx, int fd, struct err *err)
{
	const struct clearing *c = ctx;
	int data_fd = c->session->service->data_fd;

	(void)fd;
	(void)err;
	for (size_t i = 0; i < c->n_victims; i++) {
		AUTO_FD dir = openat(
			data_fd, c->victims[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (dir >= 0)
			artifact_remove_all(dir);
	}
	return 0;
}

static void on_files_removed(void *ctx, int r, const struct err *err)
{
	struct clearing *c = ctx;

	(void)err;
	if (r < 0)
		end(c, r);
	else
		store_commit(TAKE(c->batch), on_stored, c);
}

static void on_page(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct clearing *c = ctx;
	const struct run_row *all = rows;
	struct service *s = c->session->service;
	char path[160];

	(void)total;
	if (r < 0 || n == 0 || s->is_closing) {
		end(c, s->is_closing ? -ECANCELED : r);
		return;
	}
	c->batch = store_batch_new(s->store);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/runs/%s", all[i].user_id, all[i].id);
		c->victims[c->n_victims++] = xstrdup(path);
		if (all[i].artifact_bytes <= 0)
			continue;
		quota_count_removed(c->batch, &all[i]);
		struct run_row cleared = all[i]; /* borrowed texts */
		cleared.artifact_bytes = 0;
		store_batch_put(c->batch, &run_table, &cleared);
	}
	feeder_start(s->loop, -1, remove_files, on_files_removed, c);
}

/* The newest first: a row that becomes too old meanwhile moves no other to another page. */
static void list_page(struct clearing *c)
{
	struct service *s = c->session->service;
	struct query q = { .table = &run_table, .n_filters = 1, .sort = "started_at" };

	if (s->is_closing) {
		end(c, -ECANCELED);
		return;
	}
	q.descending = true;
	q.limit = RUNS_AT_ONCE;
	q.offset = c->offset;
	q.filters[0] = (struct filter){ .column = "session_id", .op = FILTER_EQ };
	q.filters[0].text = c->session->row.id;
	store_list(s->store, &q, on_page, c);
}

static void begin(struct turn *turn)
{
	list_page((struct clearing *)turn);
}

void session_clear_artifacts(struct session *session, session_cleared_cb *done, void *ctx)
{
	struct clearing *c = xnew(struct clearing);

	*c = (struct clearing){ .session = session, .done = done, .ctx = ctx };
	c->turn.begin = begin;
	service_take_turn(session->service, &c->turn);
}
