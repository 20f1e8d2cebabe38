#include "core/replay.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/journal.h"
#include "core/phase.h"
#include "core/quota.h"
#include "core/service.h"
#include "store/record.h"

struct replay {
	struct service *service;
	int place;
	struct run_row row;
	replay_cb *done;
};

static void finish(struct replay *p, int r)
{
	row_fini(&run_table, &p->row);
	if (!p->service->is_closing)
		p->done(p->service, r);
	free(p);
}

static void take_next(struct replay *p, int from);

static void on_stored(void *ctx, int r)
{
	struct replay *p = ctx;

	p->service->n_pending--;
	if (r < 0 || p->service->is_closing) {
		finish(p, r);
		return;
	}
	journal_remove(p->service->journal, p->place);
	take_next(p, p->place + 1);
}

static bool is_over(const struct run_row *row)
{
	enum phase phase;

	return phase_find(row->phase, &phase) == 0 && phase_is_over(phase);
}

static void store_row(struct replay *p, bool is_new)
{
	struct store_batch *b = store_batch_new(p->service->store);

	store_batch_put(b, &run_table, &p->row);
	if (is_new)
		quota_count_run(b, p->row.user_id, (uint64_t)p->row.created_ns);
	if (is_over(&p->row))
		quota_count_end(b, &p->row);
	p->service->n_pending++;
	store_commit(b, on_stored, p);
}

static void on_looked_up(void *ctx, int r, const void *row)
{
	struct replay *p = ctx;

	p->service->n_pending--;
	if (p->service->is_closing || (r < 0 && r != -ENOENT)) {
		finish(p, r);
		return;
	}
	if (r == -ENOENT || (is_over(&p->row) && !is_over(row))) {
		store_row(p, r == -ENOENT);
		return;
	}
	journal_remove(p->service->journal, p->place); /* there was no time to do that */
	take_next(p, p->place + 1);
}

static void take_next(struct replay *p, int from)
{
	struct service *s = p->service;

	row_fini(&run_table, &p->row);
	p->place = journal_next(s->journal, from, &p->row);
	if (p->place < 0) {
		finish(p, p->place == -ENOENT ? 0 : p->place);
		return;
	}
	s->n_pending++;
	store_get(s->store, &run_table, &p->row, on_looked_up, p);
}

void replay_start(struct service *s, replay_cb *done)
{
	struct replay *p = xnew(struct replay);

	*p = (struct replay){ .service = s, .done = done };
	if (s->journal)
		take_next(p, 0);
	else
		finish(p, 0);
}
