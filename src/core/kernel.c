#include "core/kernel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/identity.h"
#include "core/kernel_private.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session_private.h"
#include "core/stream.h"
#include "core/utf8.h"

/* The longest that a keeper lets anything live. */
#define LIFE_MAX_SEC (7u * 24u * 3600u)

/* Events of executions that are kept with the run. */
#define EVENTS_MAX 10000u

extern const char kernel_driver[];
extern const size_t kernel_driver_size;

const char *kernel_fresh_name(enum kernel_fresh f)
{
	static const char *const names[] = { "", "first_use", "restarted", "died",
		"server_restarted" };

	return names[f];
}

static void advance(struct kernel *k);

static void stop_timer(struct kernel *k)
{
	uv_timer_t *timer = TAKE(k->timer);

	if (!timer)
		return;
	(void)uv_timer_stop(timer);
	uv_close((uv_handle_t *)timer, (uv_close_cb)free);
}

static void free_execution(struct execution *e)
{
	explicit_bzero(e->code, e->size);
	free(e->code);
	if (e->env)
		explicit_bzero(e->env, e->env_size);
	free(e->env);
	free(e);
}

static struct execution *take_first(struct kernel *k)
{
	struct execution *e = k->first;

	k->first = e->next;
	k->n--;
	k->is_executing = false;
	return e;
}

/* The session stays while somebody is told. */
static void tell(struct kernel *k, struct execution *e, struct kernel_result *result,
	struct problem *problem)
{
	struct session *session = k->session;

	session->n_work++;
	e->done(e->ctx, result, problem);
	free_execution(e);
	session->n_work--;
}

static void refuse_all(struct kernel *k, struct problem *problem)
{
	while (k->first)
		tell(k, take_first(k), NULL, problem);
}

static void refuse_all_with(struct kernel *k, const char *code, const char *text)
{
	struct problem problem = { 0 };

	(void)problem_set(&problem, code, "%s", text);
	refuse_all(k, &problem);
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
static void finish_execution(struct kernel *k, struct kernel_result *result)
{
	struct problem none = { 0 };
	char reason[sizeof(k->fresh_reason)];

	stop_timer(k);
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
	k->fresh = KERNEL_KEPT;
	k->fresh_reason[0] = '\0';
	k->is_late = false;
	tell(k, take_first(k), result, &none);
	kernel_reply_fini(&result->reply);
	excerpt_fini(&result->out);
	excerpt_fini(&result->err);
}

void kernel_on_done(struct kernel *k)
{
	struct kernel_result result = { .outcome = k->reader.reply.outcome };

	if (!k->is_executing || k->reader.reply.number != k->number) {
		kernel_on_nonsense(k);
		return;
	}
	result.reply = k->reader.reply;
	k->reader.reply = (struct kernel_reply){ 0 };
	if (k->state == STATE_BUSY) {
		k->state = STATE_IDLE;
		run_rest(k->run);
	}
	finish_execution(k, &result);
	advance(k);
}

/* --- its end --- */

static void end_run(struct kernel *k)
{
	k->state = STATE_ENDING;
	(void)run_cancel(k->run);
}

void kernel_on_nonsense(struct kernel *k)
{
	if (k->state == STATE_ENDING)
		return;
	k->talked_nonsense = true;
	kernel_hang_up(k);
	end_run(k);
}

static const char *reason_of(const struct kernel *k, const struct run *run)
{
	if (k->restarts)
		return "restarted";
	if (k->talked_nonsense)
		return "protocol_error";
	return run->row.reason_code ? run->row.reason_code : "infrastructure_error";
}

static void on_over(struct run_waiter *w, struct run *run)
{
	struct kernel *k = (struct kernel *)((char *)w - offsetof(struct kernel, waiter));
	struct kernel_result result = { .outcome = KERNEL_DIED };
	char reason[sizeof(k->fresh_reason)];
	bool restarts = k->restarts;

	(void)snprintf(reason, sizeof(reason), "%s", reason_of(k, run));
	result.reason_code = reason;
	result.message = k->talked_nonsense
				 ? "the interpreter said what makes no sense, and was ended"
				 : run->row.message;
	/* Also what never got to an interpreter: it would not fare better with the next. */
	if (k->first && (k->is_executing || (!k->was_ready && !restarts)))
		finish_execution(k, &result);
	kernel_catch_up(k);
	kernel_hang_up(k);
	excerpt_fini(&k->out);
	excerpt_fini(&k->err);
	stop_timer(k);
	run->kernel = NULL;
	k->run = NULL;
	k->restarts = k->talked_nonsense = k->is_late = k->was_ready = false;
	k->number = 0;
	k->fresh = restarts ? KERNEL_RESTARTED : KERNEL_AFTER_DEATH;
	(void)snprintf(k->fresh_reason, sizeof(k->fresh_reason), "%s", reason);
	k->state = STATE_NONE;
	advance(k);
}

/* --- its beginning --- */

static size_t count_of_user(const struct service *s, const char *user)
{
	size_t n = 0;

	for (const struct session *i = s->sessions; i; i = i->next)
		n += i->kernel && i->kernel->state != STATE_NONE && streq(i->row.user_id, user);
	return n;
}

static void free_kernel(struct kernel *k)
{
	stop_timer(k);
	kernel_hang_up(k);
	excerpt_fini(&k->out);
	excerpt_fini(&k->err);
	free(k);
}

static void on_created(void *ctx, struct run *run, struct problem *problem)
{
	struct kernel *k = ctx;
	struct session *session = k->session;

	session->n_work--;
	if (k->is_forgotten) {
		if (run)
			run->kernel = NULL;
		free_kernel(k);
	} else if (!run) {
		k->state = STATE_NONE;
		k->restarts = false;
		refuse_all(k, problem);
	} else {
		k->state = STATE_STARTING;
		k->run = run;
		k->waiter = (struct run_waiter){ .over = on_over };
		run_wait(run, &k->waiter);
		if (k->restarts || k->drains)
			end_run(k);
	}
	session_check_ending(session);
}

/* Without a key no answer of before is given again. */
static void on_replayed(void *ctx, const struct run_row *row)
{
	(void)ctx;
	(void)row;
	abort();
}

static json_t *resources_of(const struct kernel_limits *limits)
{
	json_t *o = json_object();

	if (limits->cpu_milli)
		(void)json_object_set_new(o, "cpu", json_real((double)limits->cpu_milli / 1000));
	if (limits->memory_mb)
		(void)json_object_set_new(
			o, "memory_mb", json_integer((json_int_t)limits->memory_mb));
	return o;
}

static int make_request(const struct kernel *k, struct request *ret, struct problem *p)
{
	AUTO_FREE char *driver = xcalloc(1, kernel_driver_size + 1);

	memcpy(driver, kernel_driver, kernel_driver_size);
	AUTO_JSON *body = json_pack("{s:s, s:[s, s, s], s:{s:s}, s:o}", "session_id",
		k->session->row.id, "command", "python3", "-c", driver, "labels", "kernel",
		"python", "resources", resources_of(&k->asked));
	return request_parse(body, REQUEST_RUN, ret, p);
}

static void create_run(struct kernel *k)
{
	struct session *session = k->session;
	struct problem problem = { 0 };
	struct identity who;
	struct request request = { 0 };
	struct run_wish wish = { .request = &request, .who = &who, .source = KERNEL_SOURCE };

	k->asked = k->first->limits;
	if (!session_is_usable(session, &problem) || make_request(k, &request, &problem) < 0) {
		refuse_all(k, &problem);
		problem_fini(&problem);
		return;
	}
	if (count_of_user(k->service, session->row.user_id) >= KERNELS_PER_USER ||
		!identity_make(session->row.user_id, false, &who)) {
		request_fini(&request);
		refuse_all_with(k, "quota_exceeded",
			"too many interpreters live; close a session that has one");
		return;
	}
	k->state = STATE_CREATING;
	session->n_work++;
	wish.kernel = k;
	/* Its session ends it, and stays as long as it is used. */
	wish.lives_ms = LIFE_MAX_SEC * UINT64_C(1000);
	run_create(k->service, &wish, on_created, on_replayed, k);
	request_fini(&request);
}

void kernel_on_ready(struct kernel *k)
{
	if (k->state != STATE_STARTING) {
		kernel_on_nonsense(k);
		return;
	}
	stop_timer(k);
	k->state = STATE_IDLE;
	k->was_ready = true;
	run_rest(k->run);
	advance(k);
}

/* --- an execution begins --- */

static void signal_run(const struct kernel *k, int sig)
{
	if (k->run && k->run->job)
		k->service->runtime->signal(k->run->job, sig);
}

/* First as ^C, and if that does not help, the end; at once for one that is not even ready. */
static void on_late(uv_timer_t *timer)
{
	struct kernel *k = timer->data;

	if (k->state != STATE_BUSY && k->state != STATE_STARTING)
		return;
	if (k->state == STATE_BUSY && !k->is_late) {
		k->is_late = true;
		signal_run(k, SIGINT);
		(void)uv_timer_start(timer, on_late, KERNEL_GRACE_MS, 0);
		return;
	}
	k->is_late = k->run->was_late = true;
	end_run(k);
}

static void start_timer(struct kernel *k, uint64_t ms)
{
	k->timer = xnew(uv_timer_t);
	(void)uv_timer_init(k->service->loop, k->timer);
	k->timer->data = k;
	(void)uv_timer_start(k->timer, on_late, ms, 0);
}

void kernel_on_attached(struct kernel *k)
{
	start_timer(k, k->run->policy.limits.startup_ms);
}

static void begin(struct kernel *k)
{
	struct execution *e = k->first;
	uint64_t most = k->run->policy_ms;
	uint64_t ms = e->timeout_ms && e->timeout_ms < most ? e->timeout_ms : most;

	k->state = STATE_BUSY;
	k->is_executing = true;
	k->begun_ns = clock_monotonic_ns();
	k->is_late = false;
	k->number++;
	run_wake(k->run);
	start_timer(k, ms);
	kernel_send(k, e);
}

/* Whatever can be done now, is. */
static void advance(struct kernel *k)
{
	if (k->drains) {
		refuse_all_with(k, "shutting_down", "the server is about to end");
		if (k->state == STATE_IDLE)
			end_run(k);
	} else if (k->first && k->state == STATE_NONE) {
		create_run(k);
	} else if (k->first && k->state == STATE_IDLE && !k->run->has_result) {
		begin(k);
	}
}

/* --- asking for one --- */

static struct kernel *kernel_of(struct session *session)
{
	struct kernel *k = session->kernel;

	if (k)
		return k;
	k = session->kernel = xnew(struct kernel);
	k->session = session;
	k->service = session->service;
	k->fresh = session->lost_kernel ? KERNEL_AFTER_SERVER_RESTART : KERNEL_FIRST_USE;
	session->lost_kernel = false;
	return k;
}

static int check_wish(struct session *session, const struct kernel_wish *w, struct problem *p)
{
	struct err err = { 0 };
	size_t tail = 0;

	if (!session_is_usable(session, p))
		return -1;
	if (session->service->is_draining)
		return problem_set(p, "shutting_down", "the server is about to end");
	if (w->size > KERNEL_CODE_MAX)
		return problem_set(
			p, "payload_too_large", "code is longer than %u bytes", KERNEL_CODE_MAX);
	if (utf8_span(w->code, w->size, &tail) != w->size)
		return problem_field(p, "code", "it is no UTF-8");
	if (policy_check_env(w->env, &err) < 0)
		return problem_set(p, "invalid_request", "%s", err.text);
	if (session->kernel && session->kernel->n >= KERNEL_WAITING_MAX)
		return problem_set(
			p, "queue_full", "%u executions of this session wait", KERNEL_WAITING_MAX);
	return 0;
}

/* NAME NUL VALUE, joined by NUL. */
static void encode_env(struct execution *e, const json_t *env)
{
	const char *name;
	json_t *value;
	size_t size = 0;

	json_object_foreach((json_t *)env, name, value)
	{
		size += strlen(name) + json_string_length(value) + 2;
	}
	if (size == 0)
		return;
	char *at = e->env = xcalloc(1, size);
	json_object_foreach((json_t *)env, name, value)
	{
		at = stpcpy(at, name) + 1;
		at = stpcpy(at, json_string_value(value)) + 1;
	}
	e->env_size = size - 1; /* none behind the last */
}

static struct execution *new_execution(const struct kernel_wish *w, kernel_cb *done, void *ctx)
{
	struct execution *e = xnew(struct execution);

	e->code = xcalloc(1, w->size + 1);
	memcpy(e->code, w->code, w->size);
	e->size = w->size;
	encode_env(e, w->env);
	e->timeout_ms = w->timeout_ms;
	e->limits = w->limits;
	e->done = done;
	e->ctx = ctx;
	return e;
}

void kernel_execute(
	struct session *session, const struct kernel_wish *wish, kernel_cb *done, void *ctx)
{
	struct problem problem = { 0 };

	if (check_wish(session, wish, &problem) < 0) {
		done(ctx, NULL, &problem);
		problem_fini(&problem);
		return;
	}
	struct kernel *k = kernel_of(session);
	struct execution **at = &k->first;
	while (*at)
		at = &(*at)->next;
	*at = new_execution(wish, done, ctx);
	k->n++;
	session_touch(session);
	advance(k);
}

bool kernel_is_idle(const struct session *session)
{
	return session->kernel && session->kernel->state == STATE_IDLE && !session->kernel->first;
}

bool kernel_interrupt(struct session *session)
{
	const struct kernel *k = session->kernel;

	if (!k || k->state != STATE_BUSY)
		return false;
	signal_run(k, SIGINT);
	return true;
}

void kernel_cancel(struct session *session, void *ctx)
{
	struct kernel *k = session->kernel;
	struct problem problem = { 0 };

	for (struct execution **at = k ? &k->first : NULL; at && *at; at = &(*at)->next) {
		struct execution *e = *at;

		if (e->ctx != ctx)
			continue;
		if (e == k->first && k->is_executing) {
			(void)kernel_interrupt(session);
			return;
		}
		struct kernel_result result = { .outcome = KERNEL_INTERRUPTED };
		*at = e->next;
		k->n--;
		tell(k, e, &result, &problem);
		return;
	}
}

bool kernel_restart(struct session *session)
{
	struct kernel *k = session->kernel;

	if (!k || k->state == STATE_NONE)
		return false;
	k->restarts = true;
	if (k->run && k->state != STATE_ENDING)
		end_run(k);
	return true;
}

/* --- the end of all --- */

void kernel_forget(struct session *session)
{
	struct kernel *k = TAKE(session->kernel);

	if (!k)
		return;
	session->n_work++;
	refuse_all_with(k, "shutting_down", "the server is about to end");
	session->n_work--;
	if (k->run) {
		run_unwait(k->run, &k->waiter);
		k->run->kernel = NULL;
	}
	k->is_forgotten = true;
	if (k->state != STATE_CREATING)
		free_kernel(k);
}

void kernel_drain(struct service *s)
{
	for (struct session *i = s->sessions; i; i = i->next) {
		if (!i->kernel)
			continue;
		i->kernel->drains = true;
		if (i->kernel->state == STATE_IDLE)
			advance(i->kernel);
	}
}
