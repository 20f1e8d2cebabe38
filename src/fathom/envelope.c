#include "fathom/envelope.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/shared.h"
#include "base/str.h"
#include "fathom/decoder.h"
#include "fathom/fathom_message.h"

void envelope_format_time(uint64_t ns, char ret[ENVELOPE_TIME_SIZE + 1])
{
	char whole[DATE_SIZE + 1]; /* has three digits more before the Z */

	date_format(ns, whole);
	memcpy(ret, whole, ENVELOPE_TIME_SIZE - 1);
	memcpy(ret + ENVELOPE_TIME_SIZE - 1, "Z", 2);
}

static json_t *begin(const char *type, const char *id)
{
	char ts[ENVELOPE_TIME_SIZE + 1];
	json_t *o = json_object();

	envelope_format_time(clock_realtime_ns(), ts);
	(void)json_object_set_new(o, "v", json_integer(FATHOM_VERSION_SPOKEN));
	(void)json_object_set_new(o, "type", json_string(type));
	if (id)
		(void)json_object_set_new(o, "id", json_string(id));
	(void)json_object_set_new(o, "ts", json_string(ts));
	return o;
}

/* Takes the object. */
static struct shared *finish(json_t *o)
{
	size_t size = json_dumpb(o, NULL, 0, JSON_COMPACT);
	struct shared *m = shared_new(size);

	if (size == 0)
		abort(); /* everything in it was checked */
	(void)json_dumpb(o, shared_data(m), size, JSON_COMPACT);
	json_decref(o);
	return m;
}

static void set_number(json_t *o, const char *key, uint64_t n)
{
	if (n != ENVELOPE_UNKNOWN)
		(void)json_object_set_new(o, key, json_integer((json_int_t)n));
}

struct shared *envelope_ack(const char *id, const char *run_id,
	const struct envelope_limits *limits, const json_t *warnings)
{
	json_t *o = begin("ack", id);
	json_t *l = json_object();

	set_number(l, "timeout_ms", limits->timeout_ms);
	set_number(l, "memory_mb", limits->memory_mb);
	set_number(l, "cpu_shares", limits->cpu_shares);
	set_number(l, "max_output_bytes", limits->max_output_bytes);
	(void)json_object_set_new(o, "run_id", json_string(run_id));
	(void)json_object_set_new(o, "limits", l);
	if (warnings)
		(void)json_object_set(o, "warnings", (json_t *)warnings);
	return finish(o);
}

struct shared *envelope_status(const char *id, const char *status)
{
	json_t *o = begin("status", id);

	(void)json_object_set_new(o, "status", json_string(status));
	return finish(o);
}

struct shared *envelope_output(const char *id, const char *type, const char *data, size_t size)
{
	json_t *o = begin(type, id);

	(void)json_object_set_new(o, "data", json_stringn(data, size));
	return finish(o);
}

static void set_fault(json_t *o, enum fault fault)
{
	(void)json_object_set_new(o, "code", json_string(fault_name(fault)));
	(void)json_object_set_new(o, "retryable", json_boolean(fault_is_retryable(fault)));
}

struct shared *envelope_result(const char *id, const struct envelope_result *result)
{
	json_t *o = begin("result", id);
	json_t *usage = json_object();

	(void)json_object_set_new(
		o, "exit_code", result->has_exited ? json_integer(result->exit_code) : json_null());
	set_number(o, "duration_ms", result->duration_ms);
	set_number(usage, "peak_memory_mb", result->peak_memory_mb);
	set_number(usage, "cpu_time_ms", result->cpu_time_ms);
	(void)json_object_set_new(o, "resource_usage", usage);
	if (result->fault != FAULT_COUNT) {
		json_t *error = json_object();

		set_fault(error, result->fault);
		(void)json_object_set_new(o, "error", error);
	}
	return finish(o);
}

/* What a client sent may be part of it, cut within a character. */
static json_t *to_text(const char *message)
{
	struct decoder d = { 0 };
	char text[DECODER_ROOM(256)];
	size_t size = strnlen(message, 255);
	size_t n = decoder_feed(&d, message, size, text);

	n += decoder_end(&d, text + n);
	return json_stringn(text, n);
}

struct shared *envelope_error(const char *id, enum fault fault, const char *message)
{
	json_t *o = begin("error", id);

	set_fault(o, fault);
	(void)json_object_set_new(o, "message", to_text(message));
	return finish(o);
}

struct shared *envelope_pong(size_t n_active, size_t n_waiting)
{
	json_t *o = begin("pong", NULL);
	json_t *load = json_object();

	set_number(load, "active_executions", n_active);
	set_number(load, "queue_depth", n_waiting);
	(void)json_object_set_new(o, "load", load);
	return finish(o);
}
