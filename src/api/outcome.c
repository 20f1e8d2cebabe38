#include "api/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/idempotency.h"
#include "api/links.h"
#include "api/reply.h"
#include "api/shelf.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/run.h"
#include "core/service.h"
#include "core/stream.h"
#include "core/utf8.h"

/* --- output --- */

static void set(json_t *o, const char *name, const char *suffix, json_t *value)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "%s%s", name, suffix);
	(void)json_object_set_new(o, key, value);
}

static json_t *base64_text(const char *data, size_t size)
{
	AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(size));

	return json_stringn(text, base64_encode(data, size, text));
}

void outcome_add_text(json_t *o, const char *name, const char *data, size_t size, bool is_cut)
{
	size_t tail;
	size_t whole = utf8_span(data, size, &tail);
	bool is_text = whole == size || (is_cut && whole + tail == size);

	set(o, name, "", is_text ? json_stringn(data, whole) : base64_text(data, size));
	set(o, name, "_encoding", json_string(is_text ? "utf8" : "base64"));
	set(o, name, "_truncated", json_boolean(is_cut));
}

/* Bytes at the start that belong to a character whose beginning was left out. */
static size_t rest_of_character(const char *data, size_t size)
{
	size_t n = 0;

	while (n < size && n < 3 && ((unsigned char)data[n] & 0xc0) == 0x80)
		n++;
	return n;
}

void outcome_add_tail(json_t *o, const char *name, const char *data, size_t size)
{
	size_t skip = rest_of_character(data, size);
	size_t tail;
	bool is_text = utf8_span(data + skip, size - skip, &tail) == size - skip;

	set(o, name, "_tail",
		is_text ? json_stringn(data + skip, size - skip) : base64_text(data, size));
	set(o, name, "_tail_encoding", json_string(is_text ? "utf8" : "base64"));
}

/* The last bytes, of what `n_head` bytes of the beginning do not have. What was printed over the
 * log cap comes last, as far as it is remembered. */
static void add_tail(
	json_t *o, const char *name, struct stream *stream, enum frame_kind kind, size_t n_head)
{
	struct stream_part part = { .which = kind, .offset = n_head, .max = OUTCOME_OUTPUT_MAX };
	uint64_t total = stream_output_bytes(stream, kind);
	AUTO_FREE char *data = NULL;
	size_t size = 0;

	if (stream_read_over(stream, kind, OUTCOME_OUTPUT_MAX, &data, &size) == 0) {
		if (total > part.offset + part.max)
			part.offset = total - part.max;
		if (stream_read_part(stream, &part, &data, &size, &total) < 0)
			return;
	}
	outcome_add_tail(o, name, data ? data : "", size);
}

static void add_output(json_t *o, const char *name, struct stream *stream, enum frame_kind kind)
{
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	uint64_t total = 0;

	if (stream &&
		stream_read_output(stream, kind, OUTCOME_OUTPUT_MAX, &data, &size, &total) < 0)
		total = 1; /* there was some, and nobody can read it */
	/* Over the log cap both are dropped, whoever filled it. */
	bool is_cut = total > size || (stream && stream_was_truncated(stream));
	outcome_add_text(o, name, data ? data : "", size, is_cut);
	if (is_cut && stream)
		add_tail(o, name, stream, kind, size);
}

/* --- artifacts --- */

struct harvest {
	struct exchange *x;
	json_t *answer;
};

static void add_links(const struct api *api, const char *run_id, json_t *list)
{
	size_t i;
	json_t *item;

	json_array_foreach(list, i, item)
	{
		AUTO_FREE char *url = links_artifact(
			api, run_id, json_string_value(json_object_get(item, "path")));

		(void)json_object_set_new(item, "download_url", json_string(url));
	}
}

static void on_list(void *ctx, int r, json_t *items)
{
	AUTO_FREE struct harvest *h = ctx;
	const char *id = json_string_value(json_object_get(h->answer, "id"));

	if (r < 0)
		(void)log_error(r, "cannot list the artifacts of run %s: %s", id, strerror(-r));
	json_t *list = items ? items : json_array();
	add_links(api_of(h->x), id, list);
	(void)json_object_set_new(h->answer, "artifacts", list);
	reply_json(h->x, 200, h->answer);
}

/* --- the answer --- */

static void reply_with_list(struct exchange *x, json_t *answer, const struct run_row *row)
{
	struct harvest *h = xnew(struct harvest);

	*h = (struct harvest){ .x = x, .answer = answer };
	shelf_list(api_of(x)->service, row->user_id, row->id, on_list, h);
}

static void add_request(
	struct exchange *x, json_t *o, const struct run_row *row, enum outcome_for what_for)
{
	if (what_for == OUTCOME_LOOKED_AT)
		return;
	AUTO_FREE char *url = links_stream(api_of(x), row, 0);
	(void)json_object_set_new(o, "log_stream_url", json_string(url));
	idempotency_tell(x, o, what_for == OUTCOME_REPLAYED);
}

static json_t *make_answer(struct exchange *x, const struct run_row *row, struct stream *stream,
	enum outcome_for what_for)
{
	json_t *o = run_json(api_of(x)->service, row);

	add_request(x, o, row, what_for);
	add_output(o, "stdout", stream, FRAME_STDOUT);
	add_output(o, "stderr", stream, FRAME_STDERR);
	return o;
}

void outcome_reply(struct exchange *x, const struct run *run, enum outcome_for what_for)
{
	json_t *o = make_answer(x, &run->row, run->stream, what_for);

	if (phase_is_over(run->phase) && json_array_size(run->request.capture_patterns) > 0) {
		reply_with_list(x, o, &run->row);
		return;
	}
	(void)json_object_set_new(o, "artifacts", json_array());
	reply_json(x, 200, o);
}

void outcome_reply_stored(struct exchange *x, const struct run_row *row, enum outcome_for what_for)
{
	CLEANUP(stream_unrefp) struct stream *stream = NULL;
	enum phase phase;

	/* The output of an expired run is gone. A run that is not over and has no object here waits
	 * for the server to resume it. */
	if (phase_find(row->phase, &phase) == 0 && phase_is_over(phase))
		(void)run_open_output(api_of(x)->service, row, &stream);
	reply_with_list(x, make_answer(x, row, stream, what_for), row);
}
