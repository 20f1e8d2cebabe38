#include "core/audit.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit_file.h"
#include "store/record.h"

#define DAY_NS (UINT64_C(86400) * 1000000000u)

struct audit {
	struct audit_file file;
	uint64_t keep_days;
	uint64_t n_lost; /* since the last line that was written */
};

struct text_field {
	const char *name;
	size_t offset; /* of a char * in the row */
};

#define RUN(name, f)                                                                               \
	{                                                                                          \
		name, offsetof(struct run_row, f)                                                  \
	}
#define SESSION(name, f)                                                                           \
	{                                                                                          \
		name, offsetof(struct session_row, f)                                              \
	}

/* In the order in which they stand in a line. What is not here is not in it: above all neither
 * what is executed nor the environment, nor the message, which may repeat some of it. */
static const struct text_field run_fields[] = {
	RUN("user_id", user_id),
	RUN("run_id", id),
	RUN("session_id", session_id),
	RUN("runtime", runtime),
	RUN("runtime_version", runtime_version),
	RUN("base_image", base_image),
	RUN("image_digest", image_digest),
	RUN("spec_version", spec_version),
	RUN("policy_hash", policy_hash),
	RUN("phase", phase),
	RUN("reason_code", reason_code),
	RUN("trace_id", trace_id),
	{ 0 },
};

static const struct text_field session_fields[] = {
	SESSION("user_id", user_id),
	SESSION("session_id", id),
	SESSION("runtime", runtime),
	SESSION("base_image", base_image),
	SESSION("spec_version", spec_version),
	SESSION("policy_hash", policy_hash),
	{ 0 },
};

static const char *const usage_keys[] = {
	"cpu_time_sec",
	"wall_time_sec",
	"peak_rss_mb",
	"log_bytes",
	"artifact_bytes",
};

/* Should a caller ever pass them along with something else. */
static const char *const forbidden_keys[] = {
	"code",
	"command",
	"content",
	"env",
	"files",
	"request",
	"stderr",
	"stdin",
	"stdout",
};

/* What is kept of a line that is too long. */
static const char *const id_keys[] = {
	"source",
	"user_id",
	"run_id",
	"session_id",
	"trace_id",
};

int audit_open(const struct audit_options *options, struct audit **ret, struct err *err)
{
	struct audit *a = xnew(struct audit);
	int r = audit_file_open(&a->file, options->path, options->max_bytes, err);

	if (r < 0) {
		free(a);
		return r;
	}
	a->keep_days = options->keep_days;
	*ret = a;
	return 0;
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	audit_file_fini(&a->file);
	free(a);
}

/* JSON can not hold what is not UTF-8, and a field that is missing would say less than one with
 * marks in it. */
static json_t *make_text(const char *text)
{
	json_t *value = json_string(text);

	if (value)
		return value;
	AUTO_FREE char *copy = xstrdup(text);
	for (char *p = copy; *p; p++) {
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	}
	return json_string(copy);
}

static void add_texts(json_t *line, const struct text_field *fields, const void *row)
{
	for (; fields->name; fields++) {
		const char *text = *(char *const *)((const char *)row + fields->offset);

		if (text)
			(void)json_object_set_new(line, fields->name, make_text(text));
	}
}

static void copy_keys(json_t *to, const json_t *from, const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *value = json_object_get(from, keys[i]);

		if (value)
			(void)json_object_set(to, keys[i], value);
	}
}

static json_t *begin_line(const char *event, uint64_t now_ns)
{
	char ts[DATE_SIZE + 1];
	json_t *line = json_object();

	date_format(now_ns, ts);
	(void)json_object_set_new(line, "event", make_text(event));
	(void)json_object_set_new(line, "ts", json_string(ts));
	return line;
}

static void merge(json_t *line, json_t *extra)
{
	for (size_t i = 0; i < ARRAY_SIZE(forbidden_keys); i++)
		(void)json_object_del(extra, forbidden_keys[i]);
	(void)json_object_del(extra, "event");
	(void)json_object_del(extra, "ts");
	(void)json_object_update(line, extra);
	json_decref(extra);
}

/* What callers are told of the doors: those of ours have names of their own. One that is not
 * here speaks for itself. */
static const char *source_of(const char *door)
{
	static const struct {
		const char *door;
		const char *source;
	} sources[] = {
		{ "rest", "API" },
		{ "fathom", "API" },
		{ "mcp", "MCP" },
		{ "kernel", "MCP" },
	};

	for (size_t i = 0; door && i < ARRAY_SIZE(sources); i++) {
		if (streq(sources[i].door, door))
			return sources[i].source;
	}
	return door ? door : "API";
}

/* The text of a line with its newline. */
static char *format_line(const json_t *line, size_t *ret_size)
{
	size_t size;
	char *text = json_write(line, 0, 0, &size);

	text[size] = '\n'; /* in place of the NUL: it is written by its size */
	*ret_size = size + 1;
	return text;
}

static char *format_short(const json_t *line, uint64_t now_ns, size_t *ret_size)
{
	AUTO_JSON *less = begin_line(json_string_value(json_object_get(line, "event")), now_ns);

	copy_keys(less, line, id_keys, ARRAY_SIZE(id_keys));
	(void)json_object_set_new(less, "too_long", json_true());
	return format_line(less, ret_size);
}

static int append(struct audit *a, const json_t *line, uint64_t now_ns, struct err *err)
{
	size_t size;
	AUTO_FREE char *text = format_line(line, &size);

	if (size > AUDIT_LINE_MAX) {
		free(text);
		text = format_short(line, now_ns, &size);
	}
	return audit_file_append(&a->file, text, size, now_ns, err);
}

/* Say what is missing before anything else is said. */
static int confess(struct audit *a, uint64_t now_ns, struct err *err)
{
	AUTO_JSON *line = begin_line("sandbox.audit.lost", now_ns);

	(void)json_object_set_new(line, "source", json_string("server"));
	(void)json_object_set_new(line, "count", json_integer((json_int_t)a->n_lost));
	int r = append(a, line, now_ns, err);
	if (r < 0)
		return r;
	log_warn("the audit log is written again, %llu events are not in it",
		(unsigned long long)a->n_lost);
	a->n_lost = 0;
	return 0;
}

/* Takes the line. A disk that stays full is logged once, not with every event. */
static void write_line(struct audit *a, json_t *line, uint64_t now_ns)
{
	struct err err = { 0 };
	int r = a->n_lost > 0 ? confess(a, now_ns, &err) : 0;

	if (r == 0)
		r = append(a, line, now_ns, &err);
	json_decref(line);
	if (r == 0)
		return;
	if (a->n_lost++ == 0)
		(void)log_error(r, "the audit log can not be written: %s", err.text);
}

static void add_usage(json_t *line, const json_t *usage)
{
	json_t *summary = json_object();

	copy_keys(summary, usage, usage_keys, ARRAY_SIZE(usage_keys));
	(void)json_object_set_new(line, "resource_usage", summary);
	copy_keys(line, usage, (const char *const[]){ "limits" }, 1);
}

void audit_run(struct audit *a, const char *event, const struct run_row *row, const json_t *usage,
	json_t *extra)
{
	uint64_t now_ns = clock_realtime_ns();
	json_t *line = begin_line(event, now_ns);

	(void)json_object_set_new(line, "source", make_text(source_of(row->source)));
	add_texts(line, run_fields, row);
	if (row->exit_code != STORE_NULL)
		(void)json_object_set_new(
			line, "exit_code", json_integer((json_int_t)row->exit_code));
	if (usage)
		add_usage(line, usage);
	merge(line, extra);
	write_line(a, line, now_ns);
}

static json_t *session_limits(const struct session_row *row)
{
	json_t *limits = json_object();

	if (isfinite(row->cpu_limit))
		(void)json_object_set_new(limits, "cpu", json_real(row->cpu_limit));
	if (row->memory_mb != STORE_NULL)
		(void)json_object_set_new(
			limits, "memory_mb", json_integer((json_int_t)row->memory_mb));
	if (row->timeout_sec != STORE_NULL)
		(void)json_object_set_new(
			limits, "timeout_sec", json_integer((json_int_t)row->timeout_sec));
	return limits;
}

void audit_session(struct audit *a, const char *event, const struct session_row *row, json_t *extra)
{
	uint64_t now_ns = clock_realtime_ns();
	json_t *line = begin_line(event, now_ns);

	(void)json_object_set_new(line, "source", make_text(source_of(row->source)));
	add_texts(line, session_fields, row);
	(void)json_object_set_new(line, "limits", session_limits(row));
	merge(line, extra);
	write_line(a, line, now_ns);
}

void audit_event(struct audit *a, const char *event, json_t *fields)
{
	uint64_t now_ns = clock_realtime_ns();
	json_t *line = begin_line(event, now_ns);

	merge(line, fields);
	write_line(a, line, now_ns);
}

unsigned audit_sweep(struct audit *a)
{
	struct err err = { 0 };
	uint64_t now_ns = clock_realtime_ns();
	uint64_t keep_ns = a->keep_days * DAY_NS;

	if (audit_file_rotate_older(&a->file, now_ns - DAY_NS, now_ns, &err) < 0)
		log_warn("a new audit file can not be begun, ignoring: %s", err.text);
	return keep_ns < now_ns ? audit_file_sweep(&a->file, now_ns - keep_ns) : 0;
}
