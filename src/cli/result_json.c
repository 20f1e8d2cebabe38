#include "cli/result_json.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "belljar.h"
#include "client/outcome.h"
#include "ipc/result.h"

static size_t sequence_size(const char *text)
{
	for (size_t n = 1; n <= strnlen(text, 4); n++) {
		json_t *sequence = json_stringn(text, n);

		if (!sequence)
			continue;
		json_decref(sequence);
		return n;
	}
	return 0;
}

/* A sentence may repeat bytes that are no UTF-8, or be cut in the middle of some:
 * each of those becomes U+FFFD, since losing the sentence would be worse. */
static json_t *sentence_json(const char *text)
{
	AUTO_FREE char *mended = xcalloc(strlen(text) + 1, 3);
	char *to = mended;

	while (*text) {
		size_t n = sequence_size(text);

		to = mempcpy(to, n ? text : "\xef\xbf\xbd", n ? n : 3);
		text += n ? n : 1;
	}
	return json_string(mended);
}

static json_t *time_json(uint64_t ns)
{
	char text[64];
	struct tm tm;
	time_t sec = (time_t)(ns / 1000000000u);

	if (ns == 0)
		return json_null();
	(void)gmtime_r(&sec, &tm);
	size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text + n, sizeof(text) - n, ".%03uZ", (unsigned)(ns / 1000000u % 1000u));
	return json_string(text);
}

static json_t *number_json(uint64_t v)
{
	return v == BELLJAR_UNKNOWN ? json_null() : json_integer((json_int_t)v);
}

static json_t *seconds_json(uint64_t us)
{
	return us == BELLJAR_UNKNOWN ? json_null() : json_real((double)us / 1e6);
}

static json_t *mb_json(uint64_t bytes)
{
	return bytes == BELLJAR_UNKNOWN ? json_null() : json_real((double)bytes / (1 << 20));
}

static char *to_base64(const char *data, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = xcalloc((size + 2) / 3 * 4 + 1, 1);
	char *to = text;

	for (size_t i = 0; i < size; i += 3) {
		uint32_t v = (uint32_t)(unsigned char)data[i] << 16;

		v |= i + 1 < size ? (uint32_t)(unsigned char)data[i + 1] << 8 : 0;
		v |= i + 2 < size ? (uint32_t)(unsigned char)data[i + 2] : 0;
		*to++ = digits[v >> 18];
		*to++ = digits[v >> 12 & 63];
		*to++ = i + 1 < size ? digits[v >> 6 & 63] : '=';
		*to++ = i + 2 < size ? digits[v & 63] : '=';
	}
	return text;
}

/* Text as it is when it is UTF-8, else all of it in base64, and it says so. */
static void add_text(json_t *object, const char *name, const struct capture_text *text)
{
	char key[64];
	json_t *plain = json_stringn(text->data ? text->data : "", text->size);

	(void)snprintf(key, sizeof(key), "%s_encoding", name);
	(void)json_object_set_new(object, key, json_string(plain ? "utf8" : "base64"));
	if (!plain) {
		AUTO_FREE char *encoded = to_base64(text->data, text->size);
		plain = json_string(encoded);
	}
	(void)json_object_set_new(object, name, plain);
	(void)snprintf(key, sizeof(key), "%s_truncated", name);
	(void)json_object_set_new(object, key, json_boolean(text->truncated));
}

static json_t *limits_json(const struct belljar_limits *l)
{
	return json_pack("{s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f}", "timeout_sec",
		(double)l->timeout_ms / 1e3, "startup_timeout_sec", (double)l->startup_ms / 1e3,
		"memory_mb", (double)l->memory_bytes / (1 << 20), "pids", (json_int_t)l->pids,
		"nofile", (json_int_t)l->open_files, "cpu", (double)l->cpu_milli / 1e3,
		"workspace_mb", (double)l->workspace_bytes / (1 << 20), "tmp_mb",
		(double)l->tmp_bytes / (1 << 20), "artifact_mb",
		(double)l->capture_bytes / (1 << 20));
}

static json_t *usage_json(const struct belljar_result *r)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_time_sec",
		seconds_json(r->cpu_us), "wall_time_sec", seconds_json(r->wall_us), "peak_rss_mb",
		mb_json(r->peak_bytes), "pids", number_json(r->pids), "max_open_files",
		number_json(r->open_files), "log_bytes", number_json(r->log_bytes),
		"artifact_bytes", number_json(r->captured_bytes), "limits",
		limits_json(&r->limits));
}

static json_t *facets_json(uint64_t mask)
{
	json_t *list = json_array();

	for (unsigned f = 0; f < BELLJAR_FACET_COUNT; f++) {
		if (mask & (UINT64_C(1) << f))
			(void)json_array_append_new(
				list, json_string(belljar_facet_name((enum belljar_facet)f)));
	}
	return list;
}

static void add_result(json_t *object, const struct belljar_result *r)
{
	enum reason reason = outcome_reason(r->outcome);
	json_t *more = json_pack(
		"{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b, s:b, s:o, s:o, s:I, s:o}",
		"phase", reason_phase(reason), "reason_code", reason_name(reason), "message",
		sentence_json(r->message), "exit_code",
		r->exit_code < 0 ? json_null() : json_integer(r->exit_code), "signal",
		r->signal ? json_integer(r->signal) : json_null(), "created_at",
		time_json(r->created_ns), "started_at", time_json(r->started_ns), "finished_at",
		time_json(r->ended_ns), "started",
		r->started_ns ? json_string(r->is_warm ? "warm" : "cold") : json_null(),
		"resource_usage", usage_json(r), "image",
		r->image[0] ? json_string(r->image) : json_null(), "enforced",
		facets_json(r->enforced), "not_enforced",
		facets_json(~r->enforced & ((UINT64_C(1) << BELLJAR_FACET_COUNT) - 1)),
		"captured_files", (json_int_t)r->captured_files, "skipped_files",
		(json_int_t)r->skipped_files, "capture_incomplete", (int)r->capture_incomplete,
		"workspace_exec", (int)r->workspace_exec, "skipped_file",
		r->skipped_file[0] ? sentence_json(r->skipped_file) : json_null(),
		"unmatched_capture",
		r->unmatched_capture[0] ? sentence_json(r->unmatched_capture) : json_null(),
		"unreadable_files", (json_int_t)r->unreadable_files, "unreadable_file",
		r->unreadable_file[0] ? sentence_json(r->unreadable_file) : json_null());

	(void)json_object_update(object, more);
	json_decref(more);
}

void result_json_print(const struct belljar_result *result, const struct belljar_error *error,
	const struct capture_text *out, const struct capture_text *err)
{
	json_t *object = json_object();

	if (result)
		add_result(object, result);
	else
		(void)json_object_update_new(
			object, json_pack("{s:s, s:s, s:o, s:n, s:n}", "phase", "failed",
					"reason_code", "infrastructure_error", "message",
					sentence_json(error->text), "exit_code", "signal"));
	add_text(object, "stdout", out);
	add_text(object, "stderr", err);
	AUTO_FREE char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
	if (text)
		(void)puts(text);
	json_decref(object);
}
