#include "fathom/execution.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/settings.h"
#include "core/stream.h"
#include "fathom/language.h"
#include "fathom/wish.h"

#define US_PER_MS 1000u
#define MB        (1u << 20)

struct execution *execution_new(const struct execution_host *host, const char *id)
{
	struct execution *e = xnew(struct execution);

	e->host = host;
	e->step = STEP_REFUSED;
	(void)snprintf(e->id, sizeof(e->id), "%s", id);
	return e;
}

void execution_unfollow(struct execution *e)
{
	cursor_close(TAKE(e->cursor));
	stream_unref(TAKE(e->stream));
	shared_unref(TAKE(e->held));
}

void execution_free(struct execution *e)
{
	if (!e)
		return;
	assert(e->step != STEP_ASKED);
	if (e->run)
		run_unwait(e->run, &e->waiter);
	execution_unfollow(e);
	json_decref(e->warnings);
	free(e);
}

bool execution_is_done(const struct execution *e)
{
	return e->step == STEP_DONE;
}

bool execution_is_over(const struct execution *e)
{
	return e->step != STEP_ASKED && !e->run;
}

/* --- asking for it --- */

static void tell_ready(struct execution *e)
{
	e->host->ready(e->host->ctx, e);
}

static void refuse(struct execution *e, enum fault fault, const char *message)
{
	e->step = STEP_REFUSED;
	e->end = (struct fault_end){ NULL, fault };
	(void)snprintf(e->message, sizeof(e->message), "%s", message);
	tell_ready(e);
}

static uint64_t rounded(uint64_t n, uint64_t unit)
{
	return n == USAGE_UNKNOWN ? ENVELOPE_UNKNOWN : (n + unit / 2) / unit;
}

static void note_limits(struct execution *e, const struct run *run)
{
	uint64_t kept = run->service->settings->max_log_bytes;
	uint64_t asked = run->request.max_output_bytes;

	e->limits = (struct envelope_limits){
		.timeout_ms = run->policy.limits.timeout_ms,
		.memory_mb = run->policy.memory_mb,
		.cpu_shares = rounded(run->policy.cpu_milli * WISH_SHARES_PER_CORE, 1000),
		.max_output_bytes = asked < kept ? asked : kept,
	};
}

static uint64_t duration_of(const struct result *r)
{
	if (r->usage.wall_us != USAGE_UNKNOWN)
		return rounded(r->usage.wall_us, US_PER_MS);
	return r->started_ns && r->ended_ns > r->started_ns
		       ? (r->ended_ns - r->started_ns) / 1000000
		       : 0;
}

/* A limit that was passed is told of also when the guest was quicker to end than we. */
static void note_end(struct execution *e, const struct run *run)
{
	const struct result *r = &run->result;

	e->end = fault_of_reason(run->row.reason_code, r->error);
	e->has_started = r->started_ns != 0;
	bool is_cut = run->stream && stream_was_truncated(run->stream);
	bool has_ended_itself =
		e->end.status && e->end.fault == FAULT_COUNT && !streq(e->end.status, "cancelled");
	if (is_cut && has_ended_itself)
		e->end = fault_of_reason("output_limit_exceeded", 0);
	e->result = (struct envelope_result){
		.has_exited = run->row.exit_code != STORE_NULL,
		.exit_code = (int)run->row.exit_code,
		.duration_ms = duration_of(r),
		.peak_memory_mb = rounded(r->usage.peak_bytes, MB),
		.cpu_time_ms = rounded(r->usage.cpu_us, US_PER_MS),
		.fault = e->end.fault,
	};
	(void)snprintf(e->message, sizeof(e->message), "%s",
		run->row.message ? run->row.message : "the sandbox failed");
}

static void on_over(struct run_waiter *w, struct run *run)
{
	struct execution *e = (struct execution *)((char *)w - offsetof(struct execution, waiter));

	note_end(e, run);
	e->run = NULL;
	tell_ready(e);
}

static void on_wake(void *ctx)
{
	tell_ready(ctx);
}

/* The only file of a request is what came as its code. */
static void refuse_request(struct execution *e, const struct problem *problem)
{
	const char *rest = str_after(problem->message, "files[0].content_b64:");
	char text[sizeof(problem->message) + sizeof("code:")];

	(void)snprintf(
		text, sizeof(text), "%s%s", rest ? "code:" : "", rest ? rest : problem->message);
	refuse(e, fault_of_problem(problem), text);
}

static void on_created(void *ctx, struct run *run, struct problem *problem)
{
	struct execution *e = ctx;

	if (!run) {
		refuse_request(e, problem);
		return;
	}
	e->step = STEP_ACCEPTED;
	e->run = run;
	e->waiter.over = on_over;
	memcpy(e->run_id, run->row.id, sizeof(e->run_id));
	note_limits(e, run);
	e->stream = stream_ref(run->stream);
	e->cursor = cursor_open(e->stream, 0, on_wake, e);
	run_wait(run, &e->waiter);
	if (e->is_canceled)
		(void)run_cancel(run);
	tell_ready(e);
}

/* Without a key nothing is. */
static void on_replayed(void *ctx, const struct run_row *row)
{
	(void)row;
	refuse(ctx, FAULT_INTERNAL_ERROR, "the run was there before");
}

static void create(struct execution *e, const json_t *body)
{
	struct problem problem = { 0 };
	struct request request;
	struct run_wish wish = {
		.request = &request,
		.who = &e->host->who,
		.source = "fathom",
		.trace_id = e->host->trace_id,
	};

	if (request_parse(body, REQUEST_RUN, &request, &problem) < 0) {
		refuse_request(e, &problem);
		problem_fini(&problem);
		return;
	}
	e->step = STEP_ASKED;
	run_create(e->host->service, &wish, on_created, on_replayed, e);
	request_fini(&request);
}

void execution_start(struct execution *e, const struct fathom_message *m, const char *image)
{
	const struct lang *l = NULL;
	struct err err = { 0 };

	if (language_find(m->language, image, &l, &err) < 0) {
		refuse(e, FAULT_LANGUAGE_NOT_SUPPORTED, err.text);
		return;
	}
	if (json_array_size(m->warnings) > 0)
		e->warnings = json_incref(m->warnings);
	AUTO_JSON *body = wish_make(m, l, image);
	create(e, body);
}

void execution_cancel(struct execution *e)
{
	e->is_canceled = true;
	if (e->run)
		(void)run_cancel(e->run);
}

/* --- telling of it --- */

static struct shared *say_nothing(struct execution *e)
{
	(void)e;
	return NULL;
}

static struct shared *say_refused(struct execution *e)
{
	e->step = STEP_DONE;
	return envelope_error(e->id, e->end.fault, e->message);
}

static struct shared *say_accepted(struct execution *e)
{
	e->step = STEP_FOLLOWED;
	return envelope_ack(e->id, e->run_id, &e->limits, e->warnings);
}

static struct shared *say_running(struct execution *e)
{
	e->is_running = true;
	return envelope_status(e->id, "running");
}

/* One buffer for all: there is one thread, and it is done with it when it returns. */
static struct stream_frame frame;
static char text[DECODER_ROOM(STREAM_FRAME_MAX)];

static struct shared *say_text(struct execution *e, size_t which, size_t size)
{
	static const char *const types[] = { "stdout", "stderr" };

	if (size == 0)
		return NULL;
	struct shared *m = envelope_output(e->id, types[which], text, size);
	if (e->is_running)
		return m;
	e->held = m;
	return say_running(e);
}

static struct shared *say_output(struct execution *e)
{
	size_t which = frame.kind == FRAME_STDERR;

	return say_text(e, which, decoder_feed(&e->decoders[which], frame.data, frame.size, text));
}

static bool is_event(const char *name)
{
	char head[64];
	int n = snprintf(head, sizeof(head), "{\"event\":\"%s\",", name);

	return frame.size > (size_t)n && memcmp(frame.data, head, (size_t)n) == 0;
}

static struct shared *say_event(struct execution *e)
{
	return is_event("start") && !e->is_running ? say_running(e) : NULL;
}

/* NULL for what the protocol has no word for. */
static struct shared *say_frame(struct execution *e)
{
	static struct shared *(*const sayings[])(struct execution * e) = {
		[FRAME_STDOUT] = say_output,
		[FRAME_STDERR] = say_output,
		[FRAME_EVENT] = say_event,
		[FRAME_HEARTBEAT] = say_nothing,
		[FRAME_TRUNCATED] = say_nothing,
	};

	return sayings[frame.kind](e);
}

/* All frames are told: what is left of a character, that it ran at all, and then how it ended. */
static struct shared *say_last(struct execution *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(e->decoders); i++) {
		struct shared *m = say_text(e, i, decoder_end(&e->decoders[i], text));

		if (m)
			return m;
	}
	if (e->run)
		return NULL; /* its end will be told */
	if (e->has_started && !e->is_running)
		return say_running(e);
	if (!stream_has_ended(e->stream)) {
		e->end = (struct fault_end){ NULL, FAULT_INTERNAL_ERROR };
		(void)snprintf(e->message, sizeof(e->message), "its output can not be read");
	}
	bool is_told_apart = !e->end.status || e->end.fault == FAULT_OUTPUT_LIMIT;
	e->step = is_told_apart ? STEP_FAILED : STEP_ENDED;
	return execution_next(e);
}

static struct shared *follow(struct execution *e)
{
	if (e->held)
		return TAKE(e->held);
	if (!e->cursor)
		return NULL;
	while (cursor_next_frame(e->cursor, &frame)) {
		struct shared *m = say_frame(e);

		if (m)
			return m;
	}
	return cursor_is_done(e->cursor) ? say_last(e) : NULL;
}

/* What is shown of a limit are our words, not the reason's name. */
static struct shared *say_failed(struct execution *e)
{
	char limit[96];

	if (!e->end.status) {
		e->step = STEP_DONE;
		return envelope_error(e->id, e->end.fault, e->message);
	}
	e->step = STEP_ENDED;
	(void)snprintf(limit, sizeof(limit), "it printed more than max_output_bytes, %llu",
		(unsigned long long)e->limits.max_output_bytes);
	return envelope_error(e->id, e->end.fault, limit);
}

static struct shared *say_ended(struct execution *e)
{
	e->step = STEP_COUNTED;
	return envelope_status(e->id, e->end.status);
}

static struct shared *say_counted(struct execution *e)
{
	e->step = STEP_DONE;
	return envelope_result(e->id, &e->result);
}

struct shared *execution_next(struct execution *e)
{
	static struct shared *(*const steps[STEP_COUNT])(struct execution * e) = {
		[STEP_ASKED] = say_nothing,
		[STEP_REFUSED] = say_refused,
		[STEP_ACCEPTED] = say_accepted,
		[STEP_FOLLOWED] = follow,
		[STEP_FAILED] = say_failed,
		[STEP_ENDED] = say_ended,
		[STEP_COUNTED] = say_counted,
		[STEP_DONE] = say_nothing,
	};

	return steps[e->step](e);
}
