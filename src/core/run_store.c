/* New runs on their way into the store, each by the shortest that loses nothing: at once, or
 * together with their end, or noted in the journal until then. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "core/claim.h"
#include "core/journal.h"
#include "core/problem.h"
#include "core/quota.h"
#include "core/run_private.h"
#include "core/service.h"

void creation_free(struct creation *c)
{
	free(c->key);
	free(c);
}

void run_count(struct store_batch *b, const struct run *run)
{
	if (run->counts)
		quota_count_run(b, run->row.user_id, (uint64_t)run->row.created_ns);
}

static void hold(struct creation *c);

/* It was answered for, and the journal has it: what can not be stored now is stored later. */
static void on_noted_stored(struct creation *c, int r)
{
	struct run *run = c->run;

	if (r < 0 && !run->service->is_closing) {
		hold(c);
		return;
	}
	creation_free(c);
	if (r < 0)
		return;
	run->is_noted = false;
	journal_remove(run->service->journal, run->place);
	run->place = -1;
	run_shed(run);
	run_check_over(run);
}

static void on_stored(void *ctx, int r)
{
	struct creation *c = ctx;
	struct problem problem = { 0 };
	struct run *run = c->run;

	run->service->n_pending--;
	run->n_work--;
	run->counts = r < 0;
	claim_end(TAKE(c->claim), r);
	if (r < 0)
		(void)log_error(r, "cannot store run %s: %s", run->row.id, strerror(-r));
	if (run->is_noted) {
		on_noted_stored(c, r);
		return;
	}
	if (r < 0) {
		(void)problem_set(&problem, "store_unavailable", "the run could not be stored");
		c->done(c->ctx, NULL, &problem);
		problem_fini(&problem);
		run_abandon(run);
	} else {
		c->done(c->ctx, run, &problem);
		if (c->begins && !run->has_result && !run->service->is_closing)
			run_begin(run);
		run_shed(run);
		run_check_over(run);
	}
	creation_free(c);
}

/* One that the journal has may have had to wait for its turn, and was stored as waiting. */
static void insert(struct store_batch *b, const struct run *run)
{
	run_count(b, run);
	if (run->is_noted)
		store_batch_put(b, &run_table, &run->row);
	else
		store_batch_insert(b, &run_table, &run->row);
}

static void store_new(struct creation *c)
{
	struct run *run = c->run;
	struct store_batch *b = store_batch_new(run->service->store);

	if (c->begins)
		run_set_text(&run->row.phase, phase_name(PHASE_STARTING));
	insert(b, run);
	run_set_text(&run->row.phase, phase_name(run->phase));
	claim_store(c->claim, b);
	run->service->n_pending++;
	store_commit(b, on_stored, c);
}

/* --- together with its end --- */

/* A short run that is waited for is stored once, when it is over, instead of twice, or three times
 * where it waits for its turn: that is most of the work. Nobody knows of it before that, and
 * should we die, it never was; who sends a key cares about that. Without a journal its answer
 * waits for the store: so one that is alone is stored meanwhile, and then its end. */
static bool may_hold(const struct creation *c)
{
	const struct run *run = c->run;

	bool is_alone = !run->service->journal && run->service->queue.n_active <= 1;

	return c->waits && !c->claim && !run->session && !run_takes_files(run) &&
	       json_array_size(run->request.capture_patterns) == 0 &&
	       (run->waiting.user || (run->job && !is_alone));
}

static void on_held_for_long(uv_timer_t *timer)
{
	run_store_held(timer->data);
}

static void hold(struct creation *c)
{
	c->timer = xnew(uv_timer_t);
	(void)uv_timer_init(c->service->loop, c->timer);
	c->timer->data = c->run;
	(void)uv_timer_start(c->timer, on_held_for_long, RUN_HOLD_MS, 0);
	c->run->held = c;
}

static struct creation *take_held(struct run *run)
{
	struct creation *c = TAKE(run->held);

	uv_close((uv_handle_t *)TAKE(c->timer), (uv_close_cb)free);
	return c;
}

void run_store_held(struct run *run)
{
	run->n_work++;
	store_new(take_held(run));
}

/* Whoever waits for it hears of it as soon as a successor of ours would know its end: from the
 * journal, or from the keeper, if the journal has that it began. With others under way the store
 * takes many at a time, and that is less work than to tell each of them sooner. */
static bool tell_at_once(struct creation *c)
{
	struct run *run = c->run;
	struct problem none = { 0 };
	bool is_known = run->is_noted && run->job;
	bool is_alone = run->service->queue.n_active == 0;

	if (!run->service->journal || (!run->is_noted && !is_alone))
		return false;
	int place = is_known ? run->place : journal_add(run->service->journal, &run->row);
	if (place < 0)
		return false;
	if (place != run->place)
		journal_remove(run->service->journal, run->place);
	run->place = place;
	if (!run->is_noted)
		c->done(c->ctx, run, &none);
	run_tell_waiters(run);
	return true;
}

static void on_whole_stored(void *ctx, int r)
{
	struct creation *c = ctx;
	struct run *run = c->run;
	struct problem none = { 0 };

	if (r < 0) {
		on_stored(c, r);
		return;
	}
	run->service->n_pending--;
	run->n_work--;
	c->done(c->ctx, run, &none);
	creation_free(c);
	run_end_stored(run, 0);
}

void run_store_whole(struct run *run)
{
	struct creation *c = take_held(run);
	bool is_answered = tell_at_once(c) || run->is_noted;
	struct store_batch *b = store_batch_new(run->service->store);

	insert(b, run);
	quota_count_end(b, &run->row);
	run->is_stored = true;
	run->service->n_pending++;
	if (is_answered) {
		creation_free(c);
		store_commit_patiently(b, run_on_end_stored, run);
		return;
	}
	run->n_work++;
	/* Where others wait for their turn, whoever hears of it sooner would only wait longer. */
	if (run->service->queue.n_waiting > 0)
		store_commit_patiently(b, on_whole_stored, c);
	else
		store_commit(b, on_whole_stored, c);
}

void run_forget_held(struct run *run)
{
	struct creation *c = take_held(run);
	struct problem problem = { 0 };

	if (run->is_noted) { /* the next server finds it in the journal */
		creation_free(c);
		return;
	}
	(void)problem_set(&problem, "shutting_down", "the server is about to end");
	c->done(c->ctx, NULL, &problem);
	problem_fini(&problem);
	creation_free(c);
}

/* --- in the journal --- */

/* One that others know of at once is stored with its end, too, if that comes soon, and until then
 * the journal has it. Not one that waits for its turn: that it begins would have to be noted,
 * too. */
static bool may_note(const struct creation *c)
{
	const struct run *run = c->run;

	return run->service->journal && !c->claim && !run->kernel && run->holds_slot &&
	       (run->job || c->begins) && json_array_size(run->request.capture_patterns) == 0;
}

static bool note(struct creation *c)
{
	struct run *run = c->run;

	if (c->begins)
		run_set_text(&run->row.phase, phase_name(PHASE_STARTING));
	run->place = journal_add(run->service->journal, &run->row);
	run_set_text(&run->row.phase, phase_name(run->phase));
	run->is_noted = run->place >= 0;
	return run->is_noted;
}

/* The journal has it: it begins, if it has not, and is answered for. */
static void go_on(struct creation *c)
{
	struct run *run = c->run;
	struct problem none = { 0 };
	bool begins = c->begins;

	c->begins = false;
	hold(c);
	if (begins)
		run_begin(run);
	c->done(c->ctx, run, &none);
	run->n_work--;
	run_check_over(run);
}

/* --- the way in --- */

void run_store_new(struct creation *c)
{
	struct run *run = c->run;

	if (may_hold(c)) {
		hold(c);
		run->n_work--;
	} else if (may_note(c) && note(c)) {
		go_on(c);
	} else {
		store_new(c);
	}
}

/* --- those that are known --- */

void run_store_noted(struct service *s)
{
	for (struct run *run = s->runs; run; run = run->next) {
		if (run->held && run->is_noted)
			run_store_held(run);
	}
}

static void on_kept(void *ctx, int r)
{
	struct run *run = ctx;

	run->service->n_pending--;
	run->n_work--;
	if (r < 0)
		log_warn("a run's row could not be stored: %s", strerror(-r));
	else
		run_shed(run);
	run_check_over(run);
}

void run_store(struct run *run)
{
	struct store_batch *b = store_batch_new(run->service->store);

	store_batch_put(b, &run_table, &run->row);
	run->n_work++;
	run->service->n_pending++;
	store_commit(b, on_kept, run);
}
