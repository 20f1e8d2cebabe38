/* Runs: made, looked at, listed, canceled. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/fields.h"
#include "api/idempotency.h"
#include "api/links.h"
#include "api/outcome.h"
#include "api/page.h"
#include "api/reply.h"
#include "api/wait.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session.h"
#include "store/store.h"

#define WAIT_MAX_MS   (3600u * 1000u)
#define CANCEL_ADD_MS 2000u /* beside the grace, until its end is stored */

/* --- POST /runs --- */

struct creation {
	struct exchange *x;
	uint64_t wait_ms;
	bool shows_output; /* it was asked to wait, and so to bring all */
	uint64_t from_seq;
	bool is_replay; /* another request has made it */
};

static void reply_status(const struct creation *c, const struct run_row *row)
{
	const struct api *api = api_of(c->x);
	json_t *o = run_json(api->service, row);
	AUTO_FREE char *url = links_stream(api, row, c->from_seq);

	(void)json_object_set_new(o, "log_stream_url", json_string(url));
	idempotency_tell(c->x, o, c->is_replay);
	reply_json(c->x, 200, o);
}

static void on_waited(void *ctx, struct run *run)
{
	AUTO_FREE struct creation *c = ctx;

	if (c->shows_output)
		outcome_reply(c->x, run, c->is_replay ? OUTCOME_REPLAYED : OUTCOME_CREATED);
	else
		reply_status(c, &run->row);
}

static void on_created(void *ctx, struct run *run, struct problem *problem)
{
	struct creation *c = ctx;

	if (run) {
		api_note_run(c->x, run->row.id);
		wait_start(c->x, run, c->wait_ms, on_waited, c);
		return;
	}
	reply_problem(c->x, problem);
	free(c);
}

static void on_replayed(void *ctx, const struct run_row *row)
{
	struct creation *c = ctx;
	struct run *live = run_find(api_of(c->x)->service, row->id, NULL);

	c->is_replay = true;
	api_note_run(c->x, row->id);
	if (live) {
		wait_start(c->x, live, c->wait_ms, on_waited, c);
		return;
	}
	if (c->shows_output)
		outcome_reply_stored(c->x, row, OUTCOME_REPLAYED);
	else
		reply_status(c, row);
	free(c);
}

/* The parameter ?wait, in seconds; it has answered when it is not right. */
static int read_seconds(struct exchange *x, const char *text, uint64_t *ret_ms)
{
	if (str_parse_milli(text, ret_ms) == 0 && *ret_ms <= WAIT_MAX_MS)
		return 0;
	reply_field(x, PROBLEM_IN_QUERY, "wait", "must be a number of seconds from 0 to %u",
		WAIT_MAX_MS / 1000);
	return -EINVAL;
}

/* How long the answer may be held back. Without ?wait it is, if runs are not to be executed in
 * the background, until the end. */
static int read_wait(struct exchange *x, struct creation *c)
{
	const struct settings *settings = api_of(x)->settings;
	const char *text = exchange_query(x, "wait");

	if (!text) {
		if (!settings->background_execution && settings->enable_execution)
			c->wait_ms = WAIT_MAX_MS;
		return 0;
	}
	c->shows_output = true;
	return read_seconds(x, text, &c->wait_ms);
}

static void create(struct creation *c, const json_t *body, const char *key)
{
	struct exchange *x = c->x;
	struct request request;

	if (fields_read_request(x, body, REQUEST_RUN, &request) < 0) {
		free(c);
		return;
	}
	c->from_seq = request.resume_from_seq;
	struct run_wish wish = {
		.request = &request,
		.who = api_who(x),
		.idempotency_key = key,
		.source = "rest",
		.trace_id = api_trace_id(x),
		.waits = c->wait_ms >= 20 * RUN_HOLD_MS,
	};
	run_create(api_of(x)->service, &wish, on_created, on_replayed, c);
	request_fini(&request);
}

static void handle_create(struct exchange *x)
{
	struct creation read = { .x = x };
	AUTO_JSON *body = NULL;
	const char *key;

	if (read_wait(x, &read) < 0 || idempotency_read_key(x, &key) < 0 ||
		reply_read_json(x, &body) < 0)
		return;
	struct creation *c = xnew(struct creation);
	*c = read;
	create(c, body, key);
}

/* --- GET /runs/{id} --- */

static void on_looked_at(void *ctx, struct run *run)
{
	outcome_reply(ctx, run, OUTCOME_LOOKED_AT);
}

static void on_row(void *ctx, const struct run_row *row, struct problem *problem)
{
	if (row)
		outcome_reply_stored(ctx, row, OUTCOME_LOOKED_AT);
	else
		reply_problem(ctx, problem);
}

static void handle_get(struct exchange *x)
{
	struct service *service = api_of(x)->service;
	const char *id = exchange_param(x, "id");
	const char *wait = exchange_query(x, "wait");
	uint64_t ms = 0;

	api_note_run(x, id);
	if (wait && read_seconds(x, wait, &ms) < 0)
		return;
	struct run *live = run_find(service, id, api_who(x));
	if (live)
		wait_start(x, live, phase_is_over(live->phase) ? 0 : ms, on_looked_at, x);
	else
		run_get(service, id, api_who(x), on_row, x);
}

/* --- POST /runs/{id}/cancel --- */

static void reply_cancel(struct exchange *x, const struct run_row *row, const char *message)
{
	bool done = streq(message, "canceled_by_user") || streq(message, "cancel_requested");

	reply_json(x, 200,
		json_pack("{s:s,s:s,s:b,s:s,s:s}", "id", row->id, "run_id", row->id, "cancelled",
			done, "message", message, "phase", row->phase));
}

/* What it ended of is known now: it may have been quicker than we. */
static void on_canceled(void *ctx, struct run *run)
{
	const struct run_row *row = &run->row;
	const char *message = "not_running_or_not_found";

	if (!phase_is_over(run->phase))
		message = "cancel_requested";
	else if (row->reason_code && streq(row->reason_code, "canceled_by_user"))
		message = "canceled_by_user";
	reply_cancel(ctx, row, message);
}

static void on_row_to_cancel(void *ctx, const struct run_row *row, struct problem *problem)
{
	if (row)
		reply_cancel(ctx, row, "not_running_or_not_found");
	else
		reply_problem(ctx, problem);
}

static void handle_cancel(struct exchange *x)
{
	const struct api *api = api_of(x);
	const char *id = exchange_param(x, "id");
	struct run *run = run_find(api->service, id, api_who(x));
	uint64_t ms = api->settings->cancel_grace_sec * 1000 + CANCEL_ADD_MS;

	api_note_run(x, id);
	/* One that is being canceled already is waited for as well; one whose end is known, and
	 * only not stored yet, is over. */
	if (run && !phase_is_over(run->phase) && (run_cancel(run) || run->cancels))
		wait_start(x, run, ms, on_canceled, x);
	else
		run_get(api->service, id, api_who(x), on_row_to_cancel, x);
}

/* --- GET /runs: what lives, as it is now, and then what is over, as it is stored --- */

struct listing {
	struct exchange *x;
	struct page page;
	json_t *items;
	uint64_t n_live; /* that fit, on this page or not */
};

struct wanted {
	const char *user;
	const char *session; /* NULL: any */
	const char *phase;   /* NULL: any */
};

static bool fits(const struct run *run, const struct wanted *w)
{
	const struct run_row *row = &run->row;

	return streq(row->user_id, w->user) && (!w->phase || streq(row->phase, w->phase)) &&
	       (!w->session || (row->session_id && streq(row->session_id, w->session)));
}

/* The store works in the order it was asked: what it shall keep as over by now is in its
 * answer, and nothing that ends from now on. So each run is in one of both. */
static void list_live(struct listing *l, const struct wanted *w)
{
	struct service *s = api_of(l->x)->service;

	for (const struct run *run = s->runs; run; run = run->next) {
		if (!run_is_shown(run) || !fits(run, w))
			continue;
		if (l->n_live >= l->page.offset && json_array_size(l->items) < l->page.limit)
			(void)json_array_append_new(l->items, run_json(s, &run->row));
		l->n_live++;
	}
}

static void reply_listing(struct listing *l, uint64_t n_stored)
{
	reply_json(l->x, 200, page_json(&l->page, l->n_live + n_stored, l->items));
	free(l);
}

static void on_stored(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct listing *l = ctx;
	const struct run_row *row = rows;

	if (r < 0) {
		reply_refusal(l->x, "store_unavailable", "the runs could not be listed");
		json_decref(l->items);
		free(l);
		return;
	}
	for (size_t i = 0; i < n && json_array_size(l->items) < l->page.limit; i++)
		(void)json_array_append_new(l->items, run_json(api_of(l->x)->service, &row[i]));
	reply_listing(l, total);
}

static void list_stored(struct listing *l, const struct wanted *w)
{
	uint64_t room = l->page.limit - json_array_size(l->items);
	struct query q = {
		.table = &run_table,
		.filters = { { "user_id", FILTER_EQ, w->user, 0 },
			{ "phase", FILTER_IN,
				w->phase ? w->phase : "completed,failed,timed_out,killed", 0 } },
		.n_filters = 2,
		.sort = "started_at",
		.descending = true,
		.limit = room ? room : 1,
		.offset = l->page.offset > l->n_live ? l->page.offset - l->n_live : 0,
		.count = true,
	};

	if (w->session)
		q.filters[q.n_filters++] =
			(struct filter){ "session_id", FILTER_EQ, w->session, 0 };
	store_list(api_of(l->x)->service->store, &q, on_stored, l);
}

static int read_phase(struct exchange *x, const char **ret, bool *ret_is_live)
{
	const char *text = exchange_query(x, "phase");
	enum phase phase = PHASE_COUNT;

	if (text && phase_find(text, &phase) < 0) {
		reply_field(x, PROBLEM_IN_QUERY, "phase",
			"must be queued, starting, running, completed, failed, timed_out or killed");
		return -EINVAL;
	}
	*ret = text;
	*ret_is_live = text && !phase_is_over(phase);
	return 0;
}

static void handle_list(struct exchange *x)
{
	struct wanted wanted = {
		.user = api_who(x)->user_id,
		.session = exchange_query(x, "session_id"),
	};
	const struct session *session =
		wanted.session ? session_find_named(api_of(x)->service, wanted.session, api_who(x))
			       : NULL;
	struct page page;
	bool is_live;

	if (session) /* by its name, perhaps */
		wanted.session = session->row.id;

	if (page_read(x, &page) < 0 || read_phase(x, &wanted.phase, &is_live) < 0)
		return;
	struct listing *l = xnew(struct listing);
	*l = (struct listing){ .x = x, .page = page, .items = json_array() };
	list_live(l, &wanted);
	if (is_live)
		reply_listing(l, 0);
	else
		list_stored(l, &wanted);
}

#define BODY_MAX (4u << 20)

const struct route routes_runs[] = {
	{ "POST", API_BASE "/runs", ACCESS_USER, BODY_MEMORY, BODY_MAX, handle_create, "wait" },
	{ "GET", API_BASE "/runs", ACCESS_USER, BODY_NONE, 0, handle_list,
		"limit offset phase session_id" },
	{ "GET", API_BASE "/runs/{id}", ACCESS_USER, BODY_NONE, 0, handle_get, "wait" },
	{ "POST", API_BASE "/runs/{id}/cancel", ACCESS_USER, BODY_NONE, 0, handle_cancel, "" },
	{ 0 },
};
