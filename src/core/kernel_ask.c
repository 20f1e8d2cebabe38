/* Asking an interpreter to execute something, and not wanting it any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/kernel_private.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session_private.h"
#include "core/utf8.h"

static struct kernel *kernel_of(struct session *session)
{
	struct kernel *k = session->kernel;

	if (k)
		return k;
	k = session->kernel = xnew(struct kernel);
	k->session = session;
	k->service = session->service;
	k->fresh = KERNEL_FIRST_USE;
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
	(void)snprintf(e->trace_id, sizeof(e->trace_id), "%s", w->trace_id ? w->trace_id : "");
	e->context = json_copy((json_t *)w->context);
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
	kernel_advance(k);
}

bool kernel_is_idle(const struct session *session)
{
	return session->kernel && session->kernel->state == STATE_IDLE && !session->kernel->first;
}

enum kernel_stage kernel_stage(const struct session *session, const void *ctx)
{
	const struct kernel *k = session->kernel;

	if (k && k->run && run_awaits_approval(k->run))
		return KERNEL_AWAITS_APPROVAL;
	if (!k || !k->first || k->first->ctx != ctx)
		return KERNEL_AWAITS_TURN;
	return k->is_executing ? KERNEL_RUNS : KERNEL_STARTS;
}

struct kernel_now kernel_look(const struct session *session)
{
	static const char *const states[] = {
		[STATE_NONE] = "none",
		[STATE_CREATING] = "starting",
		[STATE_STARTING] = "starting",
		[STATE_IDLE] = "idle",
		[STATE_CHECKING] = "busy",
		[STATE_BUSY] = "busy",
		[STATE_ENDING] = "ending",
	};
	const struct kernel *k = session->kernel;

	if (!k)
		return (struct kernel_now){ .state = states[STATE_NONE] };
	return (struct kernel_now){
		.state = k->run && run_awaits_approval(k->run) ? "awaiting_approval"
							       : states[k->state],
		.run_id = k->run ? k->run->row.id : NULL,
		.n_waiting = k->n,
		.execution_count = k->state == STATE_NONE ? 0 : k->number,
	};
}

const char *kernel_reason(const struct kernel_result *r)
{
	static const char *const reasons[] = {
		[KERNEL_OK] = "exit_code_0",
		[KERNEL_ERROR] = "nonzero_exit",
		[KERNEL_INTERRUPTED] = "canceled_by_user",
		[KERNEL_DIED] = "infrastructure_error",
	};

	if (r->was_late)
		return "execution_timeout";
	return r->reason_code ? r->reason_code : reasons[r->outcome];
}

bool kernel_interrupt(struct session *session)
{
	struct kernel *k = session->kernel;

	if (!k || k->state != STATE_BUSY)
		return false;
	kernel_signal_interrupt(k);
	return true;
}

/* One whose time is over has its grace already, and no more of it. */
static void cancel_first(struct kernel *k)
{
	if (k->state != STATE_BUSY || k->is_late || k->is_canceled)
		return;
	k->is_canceled = true;
	kernel_press(k);
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
			cancel_first(k);
			return;
		}
		struct kernel_result result = { .outcome = KERNEL_INTERRUPTED,
			.exit_code = STORE_NULL };
		*at = e->next;
		k->n--;
		session->n_work++;
		kernel_tell(k, e, &result, &problem);
		if (session->kernel) /* else it was forgotten meanwhile */
			kernel_drop_unwanted(session->kernel);
		session->n_work--;
		session_check_ending(session);
		return;
	}
}
