/* /admin/usage/summary: how much was run and kept, in all, by runtime and by whom. */
#include <math.h>
#include <stdio.h>

#include "api/admin.h"
#include "api/api.h"
#include "api/reply.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "core/phase.h"
#include "core/run.h"
#include "core/service.h"
#include "store/record.h"

#define TOP_USERS    10u
#define RUNTIMES_MAX 8u /* more have no line of their own */

/* In this order in struct sum_group. */
enum { SUM_LOG, SUM_ARTIFACTS, SUM_CPU };

#define SUMS                                                                                       \
	{                                                                                          \
		"log_bytes", "artifact_bytes", "cpu_us"                                            \
	}

struct tally {
	char runtime[32];
	int64_t n_runs;
	int64_t n_in[PHASE_COUNT];
	int64_t sums[STORE_SUMS_MAX];
};

struct summary {
	struct exchange *x;
	struct filters filters; /* the texts are the request's */
	struct tally all;
	struct tally by_runtime[RUNTIMES_MAX];
	size_t n_runtimes;
};

static const struct filters_row summary_filters[] = {
	{ "from", "created_at", FILTER_GE, FILTERS_STAMP, NULL },
	{ "to", "created_at", FILTER_LE, FILTERS_STAMP, NULL },
	{ "user_id", "user_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "runtime", "runtime", FILTER_EQ, FILTERS_TEXT, NULL },
	{ 0 },
};

static const struct filters_table summary_list = {
	&run_table,
	summary_filters,
	(const char *const[]){ "created_at", NULL },
};

static struct sum_query sum_of(const struct summary *s)
{
	struct sum_query q = { .table = &run_table, .sums = SUMS };

	q.n_filters = s->filters.query.n_filters;
	for (size_t i = 0; i < q.n_filters; i++)
		q.filters[i] = s->filters.query.filters[i];
	return q;
}

/* --- adding up --- */

static struct tally *find_tally(struct summary *s, const char *runtime)
{
	for (size_t i = 0; i < s->n_runtimes; i++) {
		if (streq(s->by_runtime[i].runtime, runtime))
			return &s->by_runtime[i];
	}
	if (s->n_runtimes == RUNTIMES_MAX)
		return NULL;
	struct tally *t = &s->by_runtime[s->n_runtimes++];
	(void)snprintf(t->runtime, sizeof(t->runtime), "%s", runtime);
	return t;
}

static void add(struct tally *t, const struct sum_group *g)
{
	enum phase phase;

	if (!t)
		return;
	t->n_runs += g->n_rows;
	if (g->by[1] && phase_find(g->by[1], &phase) == 0)
		t->n_in[phase] += g->n_rows;
	for (size_t i = 0; i < STORE_SUMS_MAX; i++)
		t->sums[i] += g->sums[i];
}

/* --- as JSON --- */

static void set_integer(json_t *o, const char *key, int64_t value)
{
	(void)json_object_set_new(o, key, json_integer(value));
}

static json_t *tally_json(const struct tally *t)
{
	json_t *o = json_object();
	int64_t n_over = 0;

	if (t->runtime[0])
		(void)json_object_set_new(o, "runtime", json_string(t->runtime));
	set_integer(o, "runs", t->n_runs);
	for (enum phase p = 0; p < PHASE_COUNT; p++) {
		if (!phase_is_over(p))
			continue;
		set_integer(o, phase_name(p), t->n_in[p]);
		n_over += t->n_in[p];
	}
	set_integer(o, "active", t->n_runs - n_over);
	set_integer(o, "log_bytes", t->sums[SUM_LOG]);
	set_integer(o, "artifact_bytes", t->sums[SUM_ARTIFACTS]);
	(void)json_object_set_new(
		o, "cpu_time_sec", json_real(round((double)t->sums[SUM_CPU] / 1e3) / 1e3));
	return o;
}

/* An end of the window, as it was understood; null when it is open. */
static json_t *window_end(const struct summary *s, enum filter_op op)
{
	const struct query *q = &s->filters.query;

	for (size_t i = 0; i < q->n_filters; i++) {
		if (q->filters[i].op == op)
			return json_string(q->filters[i].text);
	}
	return json_null();
}

static json_t *users_json(const struct sum_group *groups, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(
			list, json_pack("{s:s?,s:I,s:I,s:I}", "user_id", groups[i].by[0], "runs",
				      (json_int_t)groups[i].n_rows, "log_bytes",
				      (json_int_t)groups[i].sums[SUM_LOG], "artifact_bytes",
				      (json_int_t)groups[i].sums[SUM_ARTIFACTS]));
	return list;
}

static json_t *summary_json(const struct summary *s, const struct sum_group *users, size_t n)
{
	json_t *lines = json_array();

	for (size_t i = 0; i < s->n_runtimes; i++)
		(void)json_array_append_new(lines, tally_json(&s->by_runtime[i]));
	return json_pack("{s:{s:o,s:o},s:o,s:o,s:o}", "window", "from", window_end(s, FILTER_GE),
		"to", window_end(s, FILTER_LE), "totals", tally_json(&s->all), "by_runtime", lines,
		"top_users", users_json(users, n));
}

/* --- asking the store --- */

static void on_users(void *ctx, int r, const struct sum_group *groups, size_t n)
{
	AUTO_FREE struct summary *s = ctx;

	if (r < 0)
		admin_refuse(s->x);
	else
		reply_json(s->x, 200, summary_json(s, groups, n));
}

static void on_phases(void *ctx, int r, const struct sum_group *groups, size_t n)
{
	AUTO_FREE struct summary *s = ctx;

	if (r < 0) {
		admin_refuse(s->x);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		add(&s->all, &groups[i]);
		add(find_tally(s, groups[i].by[0] ? groups[i].by[0] : "unknown"), &groups[i]);
	}
	struct sum_query q = sum_of(s);
	q.by = "user_id";
	q.limit = TOP_USERS;
	struct store *store = api_of(s->x)->service->store;
	store_sum(store, &q, on_users, TAKE(s));
}

void admin_handle_summary(struct exchange *x)
{
	AUTO_FREE struct summary *s = xnew(struct summary);

	s->x = x;
	if (admin_read_filters(x, &summary_list, &s->filters) < 0)
		return;
	struct sum_query q = sum_of(s);
	q.by = "runtime, phase";
	run_store_noted(api_of(x)->service);
	store_sum(api_of(x)->service->store, &q, on_phases, TAKE(s));
}
