#include "core/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/identity.h"
#include "core/kernel_private.h"
#include "core/problem.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session_private.h"
#include "lang/lang.h"

/* The longest that a keeper lets anything live. */
#define LIFE_MAX_SEC (7u * 24u * 3600u)

extern const char kernel_driver[];
extern const size_t kernel_driver_size;

const char *kernel_fresh_name(enum kernel_fresh f)
{
	static const char *const names[] = { "", "first_use", "restarted", "died",
		"server_restarted" };

	return names[f];
}

/* --- its end --- */

void kernel_end_run(struct kernel *k)
{
	k->state = STATE_ENDING;
	(void)run_cancel(k->run);
}

void kernel_drop_unwanted(struct kernel *k)
{
	if (k->first || k->state != STATE_STARTING || !run_awaits_approval(k->run))
		return;
	k->is_unwanted = true;
	kernel_end_run(k);
}

void kernel_on_nonsense(struct kernel *k)
{
	if (k->state == STATE_ENDING)
		return;
	k->talked_nonsense = true;
	kernel_hang_up(k);
	kernel_end_run(k);
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
	struct kernel_result result = { .outcome = KERNEL_DIED, .exit_code = STORE_NULL };
	char reason[sizeof(k->fresh_reason)];
	bool restarts = k->restarts;
	bool was_unwanted = k->is_unwanted; /* those who wait came later, and it never was */

	(void)snprintf(reason, sizeof(reason), "%s", reason_of(k, run));
	result.reason_code = reason;
	result.message = k->talked_nonsense
				 ? "the interpreter said what makes no sense, and was ended"
				 : run->row.message;
	if (!restarts && !k->talked_nonsense)
		result.exit_code = run->row.exit_code;
	/* Also what never got to an interpreter: it would not fare better with the next. */
	if (k->first && (k->is_executing || (!k->was_ready && !restarts && !was_unwanted)))
		kernel_finish_execution(k, &result);
	kernel_catch_up(k);
	kernel_hang_up(k);
	excerpt_fini(&k->out);
	excerpt_fini(&k->err);
	kernel_stop_timer(k);
	run->kernel = NULL;
	k->run = NULL;
	k->restarts = k->talked_nonsense = k->was_ready = k->is_unwanted = false;
	k->is_late = k->is_interrupted = k->is_canceled = k->rests = false;
	k->number = 0;
	if (!was_unwanted) {
		k->fresh = restarts ? KERNEL_RESTARTED : KERNEL_AFTER_DEATH;
		(void)snprintf(k->fresh_reason, sizeof(k->fresh_reason), "%s", reason);
	}
	k->state = STATE_NONE;
	kernel_advance(k);
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
	kernel_stop_timer(k);
	kernel_hang_up(k);
	excerpt_fini(&k->out);
	excerpt_fini(&k->err);
	free(k);
}

static void on_created(void *ctx, struct run *run, struct problem *problem)
{
	struct kernel *k = ctx;
	struct session *session = k->session;

	if (k->is_forgotten) {
		if (run)
			run->kernel = NULL;
		free_kernel(k);
	} else if (!run) {
		k->state = STATE_NONE;
		k->restarts = false;
		kernel_refuse_all(k, problem);
	} else {
		k->state = STATE_STARTING;
		k->run = run;
		k->waiter = (struct run_waiter){ .over = on_over };
		run_wait(run, &k->waiter);
		if (k->restarts || k->drains)
			kernel_end_run(k);
		else
			kernel_drop_unwanted(k);
	}
	session->n_work--;
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

/* Which interpreter it is does not depend on the PATH of the session's programs. */
static const char *interpreter_of(const struct session *session, char *buf, size_t size)
{
	const struct lang *l = lang_find("python");
	AUTO_JSON *env = session->row.env ? json_loads(session->row.env, 0, NULL) : NULL;

	return json_object_get(env, "PATH") ? lang_program(l, session->row.base_image, buf, size)
					    : l->argv[0];
}

static int make_request(const struct kernel *k, struct request *ret, struct problem *p)
{
	AUTO_FREE char *driver = xcalloc(1, kernel_driver_size + 1);
	char program[256];

	memcpy(driver, kernel_driver, kernel_driver_size);
	AUTO_JSON *body = json_pack("{s:s, s:[s, s, s], s:{s:s}, s:o}", "session_id",
		k->session->row.id, "command", interpreter_of(k->session, program, sizeof(program)),
		"-c", driver, "labels", "kernel", "python", "resources", resources_of(&k->asked));
	if (k->first->context)
		(void)json_object_set(body, "context", k->first->context);
	/* It lives longer, but by this it is judged. */
	if (k->first->timeout_ms)
		(void)json_object_set_new(
			body, "timeout_ms", json_integer((json_int_t)k->first->timeout_ms));
	return request_parse(body, REQUEST_RUN, ret, p);
}

/* --- what a predecessor had --- */

static void on_looked(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct kernel *k = ctx;
	struct session *session = k->session;

	(void)rows;
	(void)total;
	k->service->n_pending--;
	session->n_work--;
	if (k->is_forgotten) {
		free_kernel(k);
	} else {
		if (r == 0 && n > 0 && k->fresh == KERNEL_FIRST_USE)
			k->fresh = KERNEL_AFTER_SERVER_RESTART;
		k->restarts = false; /* there was none to end */
		k->state = STATE_NONE;
		kernel_advance(k);
	}
	session_check_ending(session);
}

/* Did the session have an interpreter before us? Its run is over, or about to be. */
static void look_for_lost(struct kernel *k)
{
	struct query q = { .table = &run_table, .n_filters = 2, .limit = 1 };

	q.filters[0] = (struct filter){ .column = "session_id", .op = FILTER_EQ };
	q.filters[0].text = k->session->row.id;
	q.filters[1] = (struct filter){ .column = "source", .op = FILTER_EQ };
	q.filters[1].text = KERNEL_SOURCE;
	k->session->is_inherited = false;
	k->state = STATE_CREATING;
	k->session->n_work++;
	k->service->n_pending++;
	store_list(k->service->store, &q, on_looked, k);
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
		kernel_refuse_all(k, &problem);
		problem_fini(&problem);
		return;
	}
	if (count_of_user(k->service, session->row.user_id) >= KERNELS_PER_USER ||
		!identity_make(session->row.user_id, false, &who)) {
		request_fini(&request);
		kernel_refuse_all_with(k, "quota_exceeded",
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
	kernel_stop_timer(k);
	k->state = STATE_IDLE;
	k->was_ready = true;
	run_rest(k->run);
	kernel_advance(k);
	kernel_rest(k);
}

void kernel_advance(struct kernel *k)
{
	if (k->drains) {
		kernel_refuse_all_with(k, "shutting_down", "the server is about to end");
		if (k->state == STATE_IDLE)
			kernel_end_run(k);
	} else if (k->first && k->state == STATE_NONE && k->session->is_inherited) {
		look_for_lost(k);
	} else if (k->first && k->state == STATE_NONE) {
		create_run(k);
	} else if (k->first && k->state == STATE_IDLE && !k->run->has_result) {
		kernel_check_quota(k);
	}
}

bool kernel_restart(struct session *session)
{
	struct kernel *k = session->kernel;

	if (!k || k->state == STATE_NONE)
		return false;
	k->restarts = true;
	if (k->run && k->state != STATE_ENDING)
		kernel_end_run(k);
	return true;
}

/* --- the end of all --- */

void kernel_forget(struct session *session)
{
	struct kernel *k = TAKE(session->kernel);

	if (!k)
		return;
	session->n_work++;
	kernel_refuse_all_with(k, "shutting_down", "the server is about to end");
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
			kernel_advance(i->kernel);
	}
}
