/* One execution of an interpreter: how it begins, how long it may take, and how it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/kernel_private.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/quota.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session_private.h"
#include "core/stream.h"

/* Events of executions that are kept with the run. */
#define EVENTS_MAX 10000u

void kernel_stop_timer(struct kernel *k)
{
	uv_timer_t *timer = TAKE(k->timer);

	if (!timer)
		return;
	(void)uv_timer_stop(timer);
	uv_close((uv_handle_t *)timer, (uv_close_cb)free);
}

static void start_timer(struct kernel *k, uv_timer_cb on, uint64_t ms, uint64_t again_ms)
{
	k->timer = xnew(uv_timer_t);
	(void)uv_timer_init(k->service->loop, k->timer);
	k->timer->data = k;
	(void)uv_timer_start(k->timer, on, ms, again_ms);
}

static void free_execution(struct execution *e)
{
	explicit_bzero(e->code, e->size);
	free(e->code);
	if (e->env)
		explicit_bzero(e->env, e->env_size);
	free(e->env);
	json_decref(e->context);
	free(e);
}

static struct execution *kernel_take_first(struct kernel *k)
{
	struct execution *e = k->first;

	k->first = e->next;
	k->n--;
	k->is_executing = false;
	return e;
}

/* The session stays while somebody is told. */
void kernel_tell(struct kernel *k, struct execution *e, struct kernel_result *result,
	struct problem *problem)
{
	struct session *session = k->session;

	session->n_work++;
	e->done(e->ctx, result, problem);
	free_execution(e);
	session->n_work--;
}

void kernel_refuse_all(struct kernel *k, struct problem *problem)
{
	while (k->first)
		kernel_tell(k, kernel_take_first(k), NULL, problem);
}

void kernel_refuse_all_with(struct kernel *k, const char *code, const char *text)
{
	struct problem problem = { 0 };

	(void)problem_set(&problem, code, "%s", text);
	kernel_refuse_all(k, &problem);
	problem_fini(&problem);
}

/* --- an execution ends --- */

static void note_event(struct kernel *k, const struct kernel_result *r)
{
	char data[160];

	if (!k->run || !k->run->stream || k->number > EVENTS_MAX)
		return;
	(void)snprintf(data, sizeof(data),
		"{\"count\":%u,\"outcome\":\"%s\",\"stdout_bytes\":%llu,\"stderr_bytes\":%llu}",
		k->number, kernel_outcome_name(r->outcome), (unsigned long long)r->out.total,
		(unsigned long long)r->err.total);
	(void)stream_event(k->run->stream, "execution", data);
}

/* Who had something executed, when, and how it ended; not what. */
static void note_in_audit(struct kernel *k, const struct kernel_result *r)
{
	json_t *o = json_pack("{s:i, s:s, s:f, s:I, s:I}", "execution_count", (int)k->number,
		"outcome", kernel_outcome_name(r->outcome), "wall_time_sec",
		(double)r->wall_ns / 1e9, "stdout_bytes", (json_int_t)r->out.total, "stderr_bytes",
		(json_int_t)r->err.total);

	if (k->first->trace_id[0])
		(void)json_object_set_new(o, "trace_id", json_string(k->first->trace_id));
	(void)json_object_update(o, k->first->context);
	/* Without the context of the interpreter's run, which is of who had it started. */
	if (k->run)
		audit_run(k->service->audit, "sandbox.kernel.executed", &k->run->row, k->run->usage,
			o);
	else
		json_decref(o);
}

/* Also who asked for more than the policy allows has what there is, if the box was made so. */
static bool is_met(uint64_t wanted, uint64_t asked, uint64_t got)
{
	return wanted == 0 || wanted == asked || wanted == got;
}

static void compare_limits(const struct kernel *k, struct kernel_result *result)
{
	const struct kernel_limits *wanted = &k->first->limits;
	const struct policy *p = &k->run->policy;

	result->limits = (struct kernel_limits){ p->cpu_milli, p->memory_mb };
	result->has_other_limits = !is_met(wanted->cpu_milli, k->asked.cpu_milli, p->cpu_milli) ||
				   !is_met(wanted->memory_mb, k->asked.memory_mb, p->memory_mb);
}

/* The first in the list is over: `result` has how, the rest is known here. */
void kernel_finish_execution(struct kernel *k, struct kernel_result *result)
{
	struct problem none = { 0 };
	char reason[sizeof(k->fresh_reason)];

	kernel_stop_timer(k);
	kernel_catch_up(k);
	result->wall_ns = k->is_executing ? clock_monotonic_ns() - k->begun_ns : 0;
	result->was_late = k->is_late;
	result->out = k->out;
	result->err = k->err;
	k->out = k->err = (struct excerpt){ 0 };
	result->execution_count = k->number;
	result->fresh = k->fresh;
	memcpy(reason, k->fresh_reason, sizeof(reason));
	result->fresh_reason = reason;
	if (k->run) {
		(void)snprintf(result->run_id, sizeof(result->run_id), "%s", k->run->row.id);
		compare_limits(k, result);
	}
	note_event(k, result);
	if (k->is_executing)
		note_in_audit(k, result);
	k->fresh = KERNEL_KEPT;
	k->fresh_reason[0] = '\0';
	k->is_late = k->is_interrupted = k->is_canceled = false;
	kernel_tell(k, kernel_take_first(k), result, &none);
	kernel_reply_fini(&result->reply);
	excerpt_fini(&result->out);
	excerpt_fini(&result->err);
}

static void store_cpu(struct run *run);

/* What could not be stored is counted with what comes next, or with the end. */
static void on_cpu_stored(void *ctx, int r)
{
	struct run *run = ctx;
	int64_t us = run->counting_cpu_us;

	run->service->n_pending--;
	run->n_work--;
	run->counting_cpu_us = 0;
	if (r == 0)
		run->counted_cpu_us = us;
	else
		run->row.cpu_us = run->counted_cpu_us;
	if (r == 0 && !run->service->is_closing && !run->has_result)
		store_cpu(run);
	run_check_over(run);
}

/* The row has how much was counted, for a successor of ours. Its end waits until that is known. */
static void store_cpu(struct run *run)
{
	if (run->counting_cpu_us || run->known_cpu_us <= run->counted_cpu_us)
		return;
	struct store_batch *b = store_batch_new(run->service->store);
	run->counting_cpu_us = run->row.cpu_us = run->known_cpu_us;
	quota_count_cpu(b, run->row.user_id, run->known_cpu_us - run->counted_cpu_us);
	store_batch_put(b, &run_table, &run->row);
	run->service->n_pending++;
	run->n_work++;
	store_commit(b, on_cpu_stored, run);
}

/* What it says of itself counts at once, within what it could have used; what it conceals, with
 * its end. */
static void count_cpu(struct kernel *k, uint64_t said_us)
{
	struct run *run = k->run;
	uint64_t could_us =
		(clock_monotonic_ns() - run->started_ns) / 1000 * k->run->policy.cpu_milli / 1000;
	int64_t us = (int64_t)(said_us < could_us ? said_us : could_us);

	if (!run->started_ns || run->has_result)
		return;
	if (us > run->known_cpu_us)
		run->known_cpu_us = us;
	store_cpu(run);
}

void kernel_on_done(struct kernel *k)
{
	struct kernel_result result = {
		.outcome = k->reader.reply.outcome,
		.exit_code = STORE_NULL,
	};

	/* Nor can it be done with what it has not read. */
	if (!k->is_executing || k->reader.reply.number != k->number || k->at_unsent < k->n_code) {
		kernel_on_nonsense(k);
		return;
	}
	/* What the code does to itself is an exception like others. */
	if (result.outcome == KERNEL_INTERRUPTED && !k->is_interrupted)
		result.outcome = KERNEL_ERROR;
	result.reply = k->reader.reply;
	k->reader.reply = (struct kernel_reply){ 0 };
	count_cpu(k, result.reply.cpu_us);
	session_touch(k->session); /* what was under way for long makes its time begin anew */
	if (k->state == STATE_BUSY) {
		k->state = STATE_IDLE;
		run_rest(k->run);
	}
	kernel_finish_execution(k, &result);
	kernel_advance(k);
	kernel_rest(k);
}

/* --- between executions --- */

/* How often the processor time of a box that could not be frozen is looked at. */
#define USAGE_MS 5000

static void on_idle(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (k->run && k->run->job)
		k->service->runtime->ask_usage(k->run->job);
}

void kernel_rest(struct kernel *k)
{
	if (k->state != STATE_IDLE)
		return;
	quota_release_cpu(k->run);
	if (k->rests || !k->run->job)
		return;
	if (k->service->settings->kernel_idle_runs) {
		k->service->runtime->ask_usage(k->run->job);
		return;
	}
	k->rests = true;
	k->service->runtime->freeze(k->run->job);
}

static void warn_once(void)
{
	static bool is_told;

	if (!is_told)
		log_warn("boxes can not be frozen here, for want of a cgroup v2: what an idle "
			 "kernel leaves behind goes on, and its processor time is counted");
	is_told = true;
}

/* What it says of itself may be less: it knows nothing of children that live. */
void kernel_on_used(struct kernel *k, uint64_t cpu_us, bool is_frozen)
{
	if (cpu_us < INT64_MAX && (int64_t)cpu_us > k->run->known_cpu_us) {
		k->run->known_cpu_us = (int64_t)cpu_us;
		store_cpu(k->run);
	}
	if (is_frozen || k->state != STATE_IDLE || k->timer)
		return;
	if (!k->service->settings->kernel_idle_runs)
		warn_once();
	start_timer(k, on_idle, USAGE_MS, USAGE_MS);
}

/* Its code is sent only afterwards. */
static void wake(struct kernel *k)
{
	kernel_stop_timer(k);
	if (k->rests && k->run->job)
		k->service->runtime->thaw(k->run->job);
	k->rests = false;
}

static void on_mute(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (k->state == STATE_IDLE)
		kernel_end_run(k);
}

/* Usually it is dead, and its box's init must execute to say so. */
void kernel_on_mute(struct kernel *k)
{
	if (k->state != STATE_IDLE)
		return;
	wake(k);
	start_timer(k, on_mute, KERNEL_GRACE_MS, 0);
}

/* --- an execution begins --- */

void kernel_signal_interrupt(struct kernel *k)
{
	k->is_interrupted = true;
	kernel_send_press(k);
}

/* First as ^C, and if that does not help, the end; at once for one that is not even ready. */
static void on_late(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (k->state != STATE_BUSY && k->state != STATE_STARTING)
		return;
	if (k->state == STATE_BUSY && !k->is_late && !k->is_canceled) {
		k->is_late = true;
		kernel_press(k);
		return;
	}
	if (!k->is_canceled)
		k->is_late = k->run->was_late = true;
	kernel_end_run(k);
}

void kernel_press(struct kernel *k)
{
	kernel_signal_interrupt(k);
	(void)uv_timer_start(k->timer, on_late, KERNEL_GRACE_MS, 0);
}

void kernel_on_attached(struct kernel *k)
{
	start_timer(k, on_late, k->run->policy.limits.startup_ms, 0);
}

/* What was asked for, or else what the session has; the interpreter may have begun with less. */
static uint64_t time_of(const struct kernel *k, const struct execution *e)
{
	uint64_t most = k->run->policy.timeout_max_ms;
	uint64_t usual = (uint64_t)k->session->row.timeout_sec * 1000;
	uint64_t ms = e->timeout_ms ? e->timeout_ms : usual;

	return ms < most ? ms : most;
}

/* An admin was asked about the time of the execution with which the interpreter began. */
static bool is_approved(const struct kernel *k, uint64_t ms, struct problem *p)
{
	const char *rule = policy_rule_of_longer(k->service->settings, &k->run->policy, ms);

	if (!rule)
		return true;
	(void)problem_set(p, "approval_required",
		"%.3g s need an admin's approval (%s), and the interpreter was begun without: "
		"ask for less time, or for a fresh interpreter, which waits for it",
		(double)ms / 1000, rule);
	return false;
}

void kernel_begin(struct kernel *k)
{
	struct execution *e = k->first;
	uint64_t ms = time_of(k, e);
	struct problem problem = { 0 };

	if (!is_approved(k, ms, &problem)) {
		kernel_tell(k, kernel_take_first(k), NULL, &problem);
		problem_fini(&problem);
		kernel_advance(k);
		return;
	}
	k->state = STATE_BUSY;
	k->is_executing = true;
	k->begun_ns = clock_monotonic_ns();
	k->number++;
	run_wake(k->run);
	wake(k);
	start_timer(k, on_late, ms, 0);
	kernel_send(k, e);
}

/* The interpreter may have died meanwhile, or nobody wants anything of it any more. */
static void on_quota(void *ctx, struct problem *problem)
{
	struct session *session = ctx;
	struct kernel *k = session->kernel;

	session->n_work--;
	if (k && k->state == STATE_CHECKING) {
		k->state = STATE_IDLE;
		if (k->first && problem->status)
			kernel_refuse_all(k, problem);
		if (k->first && !k->drains && !k->run->has_result)
			kernel_begin(k);
		else
			kernel_advance(k);
		kernel_rest(k);
	}
	session_check_ending(session);
}

void kernel_check_quota(struct kernel *k)
{
	if (!k->service->settings->cpu_sec_per_day) {
		kernel_begin(k);
		return;
	}
	k->state = STATE_CHECKING;
	k->session->n_work++;
	quota_check_cpu(k->run, time_of(k, k->first), on_quota, k->session);
}
