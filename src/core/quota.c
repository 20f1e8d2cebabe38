#include "core/quota.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/str.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"
#include "store/record.h"

static int refuse_queue(
	struct run *run, struct problem *p, const char *reason, const char *scope, uint64_t limit)
{
	const struct settings *c = run->service->settings;
	uint64_t retry = c->queue_ttl_sec > 0 ? c->queue_ttl_sec : 1;

	metrics_add(run->service->metrics, METRIC_QUEUE_FULL,
		METRICS_LABELS("orchestrator", run->policy.runtime, "queue_full"), 1);
	(void)problem_set(p, "queue_full", "Sandbox run queue is full");
	p->retry_after = retry;
	problem_add(p, "retry_after", json_integer((json_int_t)retry));
	problem_add(p, "reason", json_string(reason));
	problem_add(p, "quota_scope", json_string(scope));
	problem_add(p, "limit", json_integer((json_int_t)limit));
	return -1;
}

/* Or it waits, whoever else does. The session may have ended meanwhile. */
static bool has_files(const struct run *run)
{
	const char *id = run->request.session_id;
	const struct session *session = id ? session_find(run->service, id, NULL) : NULL;

	return !session || session->mark == SESSION_WHOLE;
}

static int check_queue(struct run *run, struct problem *p)
{
	const struct service *s = run->service;
	const struct settings *c = s->settings;
	const char *user = run->row.user_id;

	if (c->queue_max_length == 0)
		return refuse_queue(run, p, "queue_capacity_exceeded", "global", 0);
	bool is_held = run->policy.approval != NULL;
	if (!is_held && has_files(run) && service_starts_runs(s) && queue_has_room(&s->queue, user))
		return 0;
	if (!queue_has_place(&s->queue, user, c->queue_max_length))
		return refuse_queue(
			run, p, "queue_capacity_exceeded", "global", c->queue_max_length);
	if (c->queue_max_per_user && queue_waiting_of(&s->queue, user) >= c->queue_max_per_user)
		return refuse_queue(
			run, p, "user_queue_quota_exceeded", "user_id", c->queue_max_per_user);
	return 0;
}

struct check {
	struct run *run;
	quota_cb *done;
	void *ctx;
};

static bool is_other_of_user(const struct run *run, const struct run *other)
{
	return other != run && streq(other->row.user_id, run->row.user_id);
}

static void add_quota(struct problem *p, const char *quota, uint64_t used, uint64_t limit)
{
	problem_add(p, "quota", json_string(quota));
	problem_add(p, "used", json_integer((json_int_t)used));
	problem_add(p, "limit", json_integer((json_int_t)limit));
}

static int exceeded(struct problem *p, const char *quota, uint64_t used, uint64_t limit)
{
	uint64_t now_sec = clock_realtime_ns() / 1000000000;

	(void)problem_set(p, "quota_exceeded", "%s: %llu of %llu are used up", quota,
		(unsigned long long)used, (unsigned long long)limit);
	add_quota(p, quota, used, limit);
	p->retry_after = 86400 - now_sec % 86400; /* days are those of UTC */
	return -1;
}

/* A run that keeps no files is not held up by those of others. */
static bool keeps_files(const struct run *run)
{
	return json_array_size(run->request.capture_patterns) > 0;
}

/* What a run may add to what the store counts already: what it used, once that is known. */
static uint64_t owed_us(const struct run *run)
{
	if (!run->has_result || run->result.usage.cpu_us == USAGE_UNKNOWN)
		return run->cpu_reserve.us;
	uint64_t counted = (uint64_t)run->counted_cpu_us;
	uint64_t used = run->result.usage.cpu_us;
	return used > counted ? used - counted : 0;
}

static uint64_t cpu_reserved_by_others(const struct run *run)
{
	uint64_t sum = 0;

	for (const struct run *i = run->service->reserving; i; i = i->cpu_reserve.next)
		sum += is_other_of_user(run, i) ? owed_us(i) : 0;
	return sum;
}

static void reserve_cpu(struct run *run, uint64_t ms)
{
	struct run_cpu_reserve *r = &run->cpu_reserve;

	r->us = ms * run->policy.cpu_milli;
	if (r->held)
		return;
	r->held = true;
	r->next = run->service->reserving;
	run->service->reserving = run;
}

void quota_release_cpu(struct run *run)
{
	if (!run->cpu_reserve.held)
		return;
	struct run **at = &run->service->reserving;
	while (*at != run)
		at = &(*at)->cpu_reserve.next;
	*at = run->cpu_reserve.next;
	run->cpu_reserve = (struct run_cpu_reserve){ 0 };
}

/* Somebody who waits for a moment may have it again: what runs will use less than it could. */
#define RESERVED_RETRY_SEC 5

static int refuse_reserved(
	struct problem *p, uint64_t used_us, uint64_t reserved_us, uint64_t limit)
{
	(void)problem_set(p, "quota_exceeded",
		"cpu_seconds_per_day: of %llu, %llu are used up and %llu are reserved by runs that "
		"are not over; try again when some are, or give runs a shorter time",
		(unsigned long long)limit, (unsigned long long)(used_us / 1000000),
		(unsigned long long)(reserved_us / 1000000));
	add_quota(p, "cpu_seconds_per_day", used_us / 1000000, limit);
	problem_add(p, "reserved", json_integer((json_int_t)(reserved_us / 1000000)));
	p->retry_after = RESERVED_RETRY_SEC;
	return -1;
}

/* The time of a day that is left must be more than none, however long the run may take: else who
 * has a little left could not use it. */
static int check_cpu(struct run *run, const struct daily_row *row, uint64_t ms, struct problem *p)
{
	uint64_t limit = run->service->settings->cpu_sec_per_day;
	uint64_t used_us = row && row->cpu_us > 0 ? (uint64_t)row->cpu_us : 0;
	uint64_t others_us = cpu_reserved_by_others(run);

	if (!limit)
		return 0;
	if (used_us / 1000000 >= limit)
		return exceeded(p, "cpu_seconds_per_day", used_us / 1000000, limit);
	if ((used_us + others_us) / 1000000 >= limit)
		return refuse_reserved(p, used_us, others_us, limit);
	reserve_cpu(run, ms);
	return 0;
}

/* An interpreter reserves for each execution, not for its life. */
static uint64_t own_ms(const struct run *run)
{
	return run->kernel ? 0 : run->policy.limits.timeout_ms;
}

void quota_reserve_cpu(struct run *run)
{
	if (run->service->settings->cpu_sec_per_day)
		reserve_cpu(run, own_ms(run));
}

/* `row` is NULL when the user has used nothing on this day. */
static int check_day(struct run *run, const struct daily_row *row, struct problem *p)
{
	const struct settings *c = run->service->settings;
	uint64_t artifact_mb = row ? (uint64_t)row->artifact_bytes >> 20 : 0;

	if (check_cpu(run, row, own_ms(run), p) < 0)
		return -1;
	if (keeps_files(run) && c->artifact_mb_per_day && artifact_mb >= c->artifact_mb_per_day)
		return exceeded(p, "artifact_mb_per_day", artifact_mb, c->artifact_mb_per_day);
	return 0;
}

static void finish(struct check *k, struct problem *p)
{
	/* Last, since meanwhile others may have come. */
	if (!p->status)
		(void)check_queue(k->run, p);
	k->done(k->ctx, p);
	problem_fini(p);
	free(k);
}

static void on_usage(void *ctx, int r, const void *data)
{
	struct check *k = ctx;
	const struct usage_row *row = data;
	const struct settings *c = k->run->service->settings;
	struct problem p = { 0 };

	k->run->service->n_pending--;
	if (r == 0 && (uint64_t)row->artifact_bytes >= c->max_artifact_user_mb << 20)
		(void)exceeded(&p, "artifact_bytes", (uint64_t)row->artifact_bytes,
			c->max_artifact_user_mb << 20);
	else if (r < 0 && r != -ENOENT)
		(void)problem_set(&p, "store_unavailable", "quotas could not be looked up");
	finish(k, &p);
}

static void check_artifacts(struct check *k)
{
	struct usage_row key = { .user_id = k->run->row.user_id };
	struct problem p = { 0 };

	if (!keeps_files(k->run)) {
		finish(k, &p);
		return;
	}
	k->run->service->n_pending++;
	store_get(k->run->service->store, &usage_table, &key, on_usage, k);
}

static void on_day(void *ctx, int r, const void *data)
{
	struct check *k = ctx;
	struct problem p = { 0 };

	k->run->service->n_pending--;
	if (r == 0 || r == -ENOENT)
		(void)check_day(k->run, r == 0 ? data : NULL, &p);
	else
		(void)problem_set(&p, "store_unavailable", "quotas could not be looked up");
	if (p.status)
		finish(k, &p);
	else
		check_artifacts(k);
}

void quota_check(struct run *run, quota_cb *done, void *ctx)
{
	const struct settings *c = run->service->settings;
	struct check *k = xnew(struct check);
	char day[DATE_DAY_SIZE + 1];

	*k = (struct check){ .run = run, .done = done, .ctx = ctx };
	if (!c->cpu_sec_per_day && !c->artifact_mb_per_day) {
		check_artifacts(k);
		return;
	}
	date_format_day(clock_realtime_ns(), day);
	struct daily_row key = { .user_id = run->row.user_id, .day = day };
	run->service->n_pending++;
	store_get(run->service->store, &daily_table, &key, on_day, k);
}

struct cpu_check {
	struct run *run;
	uint64_t ms;
	quota_cb *done;
	void *ctx;
};

static void on_cpu_day(void *ctx, int r, const void *data)
{
	AUTO_FREE struct cpu_check *k = ctx;
	struct problem p = { 0 };

	k->run->service->n_pending--;
	if (r == 0 || r == -ENOENT)
		(void)check_cpu(k->run, r == 0 ? data : NULL, k->ms, &p);
	else
		(void)problem_set(&p, "store_unavailable", "quotas could not be looked up");
	k->done(k->ctx, &p);
	problem_fini(&p);
	k->run->n_work--;
	run_check_over(k->run);
}

void quota_check_cpu(struct run *run, uint64_t ms, quota_cb *done, void *ctx)
{
	struct cpu_check *k = xnew(struct cpu_check);
	char day[DATE_DAY_SIZE + 1];

	*k = (struct cpu_check){ .run = run, .ms = ms, .done = done, .ctx = ctx };
	date_format_day(clock_realtime_ns(), day);
	struct daily_row key = { .user_id = run->row.user_id, .day = day };
	run->service->n_pending++;
	run->n_work++;
	store_get(run->service->store, &daily_table, &key, on_cpu_day, k);
}

struct quota_room {
	struct run *run;
	uint64_t wanted;
	uint64_t left; /* as the store has it */
	quota_room_cb *done;
	void *ctx;
};

static uint64_t left_of(uint64_t mb, uint64_t used)
{
	return used < mb << 20 ? (mb << 20) - used : 0;
}

/* The bytes that other runs of the user have reserved, which the store does not count yet. The
 * store calls back in the order of the calls, and a run is freed when it hears that its end is
 * stored: so each byte is in one of both sums. */
static uint64_t reserved_by_others(const struct run *run, bool *ret_is_final)
{
	uint64_t sum = 0;

	*ret_is_final = true;
	for (const struct run *i = run->service->runs; i; i = i->next) {
		if (!is_other_of_user(run, i))
			continue;
		sum += i->reserve.bytes;
		*ret_is_final &= i->reserve.state != RESERVE_BOUND;
	}
	return sum;
}

static void grant_room(struct quota_room *m)
{
	struct run *run = m->run;
	bool is_final;
	uint64_t reserved = reserved_by_others(run, &is_final);
	uint64_t left = reserved < m->left ? m->left - reserved : 0;

	run->service->n_pending--;
	/* Another run may turn out to keep less than it reserved. */
	if (m->wanted > left && !is_final && !run->service->is_closing) {
		run->reserve = (struct run_reserve){ .state = RESERVE_WAITS, .room = m };
		return;
	}
	uint64_t bytes = m->wanted < left ? m->wanted : left;
	run->reserve = (struct run_reserve){ .state = RESERVE_BOUND, .bytes = bytes };
	m->done(m->ctx, bytes);
	free(m);
}

static void on_day_room(void *ctx, int r, const void *data)
{
	struct quota_room *m = ctx;
	const struct daily_row *row = data;
	uint64_t left = left_of(m->run->service->settings->artifact_mb_per_day,
		r == 0 ? (uint64_t)row->artifact_bytes : 0);

	if (left < m->left)
		m->left = left;
	grant_room(m);
}

/* Also when the user's row can not be read, nobody keeps more than the limit beside what is
 * reserved. */
static void on_room(void *ctx, int r, const void *data)
{
	struct quota_room *m = ctx;
	struct service *s = m->run->service;
	const struct usage_row *row = data;
	char day[DATE_DAY_SIZE + 1];

	m->left = left_of(
		s->settings->max_artifact_user_mb, r == 0 ? (uint64_t)row->artifact_bytes : 0);
	if (s->settings->artifact_mb_per_day) {
		date_format_day(clock_realtime_ns(), day);
		struct daily_row key = { .user_id = m->run->row.user_id, .day = day };
		store_get(s->store, &daily_table, &key, on_day_room, m);
		return;
	}
	grant_room(m);
}

static void look_for_room(struct quota_room *m)
{
	struct usage_row key = { .user_id = m->run->row.user_id };

	m->run->service->n_pending++;
	store_get(m->run->service->store, &usage_table, &key, on_room, m);
}

void quota_reserve_artifacts(struct run *run, uint64_t wanted, quota_room_cb *done, void *ctx)
{
	struct quota_room *m = xnew(struct quota_room);

	*m = (struct quota_room){ .run = run, .wanted = wanted, .done = done, .ctx = ctx };
	look_for_room(m);
}

/* Runs of the same user that wait look at the store again. */
static void wake_waiting(const struct run *run)
{
	if (run->service->is_closing)
		return;
	for (struct run *i = run->service->runs; i; i = i->next) {
		if (!is_other_of_user(run, i) || i->reserve.state != RESERVE_WAITS)
			continue;
		i->reserve.state = RESERVE_NONE;
		look_for_room(TAKE(i->reserve.room));
	}
}

void quota_settle_artifacts(struct run *run, uint64_t bytes)
{
	run->reserve = (struct run_reserve){ .state = RESERVE_FINAL, .bytes = bytes };
	wake_waiting(run);
}

void quota_release_artifacts(struct run *run)
{
	enum reserve_state before = run->reserve.state;

	free(run->reserve.room);
	run->reserve = (struct run_reserve){ 0 };
	if (before == RESERVE_BOUND)
		wake_waiting(run);
}

void quota_count_run(struct store_batch *b, const char *user, uint64_t now_ns)
{
	char day[DATE_DAY_SIZE + 1];
	struct usage_row usage = { .user_id = (char *)user };
	struct daily_row daily = { .user_id = (char *)user, .day = day };

	date_format_day(now_ns, day);
	store_batch_add(b, &usage_table, &usage, "runs_count", 1);
	store_batch_add(b, &daily_table, &daily, "runs_count", 1);
}

/* Most runs leave nothing, and nothing is cheap to add. */
static void count(struct store_batch *b, const struct table *t, const void *key, const char *column,
	int64_t n)
{
	if (n != 0)
		store_batch_add(b, t, key, column, n);
}

void quota_count_end(struct store_batch *b, const struct run_row *row)
{
	char day[DATE_DAY_SIZE + 1];
	struct usage_row usage = { .user_id = row->user_id };
	struct daily_row daily = { .user_id = row->user_id, .day = day };

	date_format_day(clock_realtime_ns(), day);
	count(b, &usage_table, &usage, "log_bytes", row->log_bytes);
	count(b, &usage_table, &usage, "artifact_bytes", row->artifact_bytes);
	count(b, &daily_table, &daily, "cpu_us", row->cpu_us);
	count(b, &daily_table, &daily, "artifact_bytes", row->artifact_bytes);
}

void quota_count_cpu(struct store_batch *b, const char *user, int64_t cpu_us)
{
	char day[DATE_DAY_SIZE + 1];
	struct daily_row daily = { .user_id = (char *)user, .day = day };

	date_format_day(clock_realtime_ns(), day);
	count(b, &daily_table, &daily, "cpu_us", cpu_us);
}

void quota_count_removed(struct store_batch *b, const struct run_row *row)
{
	struct usage_row usage = { .user_id = row->user_id };

	count(b, &usage_table, &usage, "artifact_bytes", -row->artifact_bytes);
}
