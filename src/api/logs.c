/* GET /runs/{id}/logs: all that a run printed, as text or as JSON lines; as far as there is of it,
 * or, with follow, until the run is over. An answer is a reader of the stream (core/log_reader.h)
 * that is asked for its next piece when the connection can take one. It takes a seat, as a
 * WebSocket of the stream does. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/attachment.h"
#include "api/reply.h"
#include "api/seat.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/log_reader.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "core/stream.h"
#include "http/range.h"

struct log_answer {
	struct seat seat;
	struct flow *flow;
	struct log_reader *reader;
};

/* --- what is asked for --- */

struct choice {
	const char *word;
	int value;
};

static const struct choice streams[] = { { "both", LOG_BOTH }, { "stdout", LOG_STDOUT },
	{ "stderr", LOG_STDERR }, { 0 } };
static const struct choice formats[] = { { "text", false }, { "jsonl", true }, { 0 } };
static const struct choice flags[] = { { "0", false }, { "1", true }, { "false", false },
	{ "true", true }, { 0 } };

/* A parameter that is one of some words. It has answered when it is none of them. */
static int read_choice(struct exchange *x, const char *name, const struct choice *choices, int *ret)
{
	const char *text = exchange_query(x, name);
	char words[64] = "";

	if (!text)
		return 0;
	for (const struct choice *c = choices; c->word; c++) {
		if (streq(c->word, text)) {
			*ret = c->value;
			return 0;
		}
		(void)snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s",
			c == choices ? ""
			: c[1].word  ? ", "
				     : " or ",
			c->word);
	}
	reply_field(x, PROBLEM_IN_QUERY, name, "must be %s", words);
	return -EINVAL;
}

/* Does this Accept header (NULL: none) name JSON lines? */
static bool accepts_lines(const char *accept)
{
	static const char *const types[] = { "application/x-ndjson", "application/ndjson",
		"application/jsonl", "application/x-jsonlines" };

	for (size_t i = 0; accept && i < ARRAY_SIZE(types); i++) {
		if (strcasestr(accept, types[i]))
			return true;
	}
	return false;
}

static int read_from_seq(struct exchange *x, uint64_t *ret)
{
	const char *text = exchange_query(x, "from_seq");

	if (!text || str_parse_u64(text, STREAM_TAIL - 1, ret) == 0)
		return 0;
	reply_field(x, PROBLEM_IN_QUERY, "from_seq",
		"must be the number of a frame; the first has number 1");
	return -EINVAL;
}

static int read_options(struct exchange *x, struct log_options *ret)
{
	int which = LOG_BOTH;
	int is_json = accepts_lines(exchange_header(x, "accept"));
	int follows = false;

	*ret = (struct log_options){ .size = UINT64_MAX };
	if (read_choice(x, "stream", streams, &which) < 0 ||
		read_choice(x, "format", formats, &is_json) < 0 ||
		read_choice(x, "follow", flags, &follows) < 0 ||
		read_from_seq(x, &ret->from_seq) < 0)
		return -EINVAL;
	ret->which = (enum log_which)which;
	ret->is_json = is_json;
	ret->follows = follows;
	return 0;
}

/* --- the answer --- */

static struct shared *on_next(void *ctx)
{
	struct log_answer *a = ctx;
	enum log_state state = LOG_READY;
	struct shared *m = log_reader_next(a->reader, &state);

	if (m)
		return m;
	if (state == LOG_READY)
		flow_want_write(a->flow);
	else if (state == LOG_OVER)
		flow_end(a->flow);
	else if (state == LOG_BROKEN)
		flow_drop(a->flow); /* a proper end would say that this was all */
	return NULL;
}

static void on_wake(void *ctx)
{
	struct log_answer *a = ctx;

	if (a->flow)
		flow_want_write(a->flow);
}

static void on_closed(void *ctx)
{
	struct log_answer *a = ctx;

	seat_leave(&a->seat);
	log_reader_free(a->reader);
	free(a);
}

static void set_headers(struct exchange *x)
{
	exchange_set_header(x, "Cache-Control", "private, no-cache, no-transform");
	exchange_set_header(x, "X-Accel-Buffering", "no");
	exchange_set_header(x, "X-Content-Type-Options", "nosniff");
	exchange_set_header(x, "Content-Security-Policy", "sandbox; default-src 'none'");
	exchange_set_header(x, "Vary", "Accept");
}

static void answer(
	struct exchange *x, struct stream *stream, const struct log_options *options, int status)
{
	static const struct flow_ops ops = { .next = on_next, .closed = on_closed };
	struct log_answer *a = xnew(struct log_answer);

	if (seat_take(x, api_who(x)->user_id, &a->seat) < 0) {
		free(a);
		return;
	}
	set_headers(x);
	a->reader = log_reader_new(stream, options, on_wake, a);
	a->flow = exchange_reply_flow(x, status,
		options->is_json ? "application/x-ndjson" : "text/plain; charset=utf-8", &ops, a);
	if (!a->flow)
		on_closed(a);
}

/* A part of the text, by the bytes that there are now. A client that names a version by If-Range
 * names none that there is, and gets all. */
static void answer_part(struct exchange *x, struct stream *stream, struct log_options *options)
{
	uint64_t total = log_reader_total(stream, options->which);
	const char *range = exchange_header(x, "if-range") ? NULL : exchange_header(x, "range");
	uint64_t offset = 0;
	uint64_t size = 0;
	enum range_verdict verdict = range_parse(range, total, &offset, &size);

	exchange_set_header(x, "Accept-Ranges", "bytes");
	if (verdict == RANGE_UNSATISFIABLE) {
		attachment_refuse_range(x, range, total);
		return;
	}
	options->offset = offset;
	options->size = size;
	if (verdict == RANGE_PART)
		attachment_set_range(x, offset, size, total);
	answer(x, stream, options, verdict == RANGE_PART ? 206 : 200);
}

static void answer_as_asked(struct exchange *x, struct stream *stream)
{
	struct log_options options;

	if (read_options(x, &options) < 0)
		return;
	if (options.is_json || options.follows || options.from_seq > 1)
		answer(x, stream, &options, 200);
	else
		answer_part(x, stream, &options);
}

/* --- whose output --- */

/* A run that is over, or that the server does not go on with yet. */
static void on_row(void *ctx, const struct run_row *row, struct problem *problem)
{
	CLEANUP(stream_unrefp) struct stream *stream = NULL;
	struct exchange *x = ctx;
	enum phase phase;

	if (!row) {
		reply_problem(x, problem);
		return;
	}
	if (phase_find(row->phase, &phase) < 0 || !phase_is_over(phase)) {
		reply_refusal(x, "store_unavailable", "the server is still looking for its runs");
		return;
	}
	int r = run_open_output(api_of(x)->service, row, &stream);
	if (r == 0)
		answer_as_asked(x, stream);
	else if (r == -ENOENT)
		reply_refusal(x, "output_not_found",
			"the output of this run is not kept any more, or it never began");
	else
		reply_refusal(x, "internal_error", "the output of this run can not be read");
}

static void handle_logs(struct exchange *x)
{
	struct service *service = api_of(x)->service;
	const char *id = exchange_param(x, "id");
	struct run *live = run_find(service, id, api_who(x));

	api_note_run(x, id);
	if (live && live->stream)
		answer_as_asked(x, live->stream);
	else
		run_get(service, id, api_who(x), on_row, x);
}

const struct route routes_logs[] = {
	{ "GET", API_BASE "/runs/{id}/logs", ACCESS_USER, BODY_NONE, 0, handle_logs,
		"stream format from_seq follow" },
	{ 0 },
};
