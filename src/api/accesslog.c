#include "api/accesslog.h"

#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/json.h"

#define LINE_MAX_SIZE 2048u

static void add(json_t *o, const char *key, const char *text)
{
	/* What is not UTF-8 is no name of ours. */
	if (text && text[0])
		(void)json_object_set_new(o, key, json_string(text));
}

size_t accesslog_format(const struct accesslog_entry *e, char *ret, size_t size)
{
	char now[DATE_SIZE + 1];
	AUTO_JSON *o = json_object();

	date_format(clock_realtime_ns(), now);
	add(o, "ts", now);
	add(o, "level", "info");
	add(o, "msg", "request");
	add(o, "method", e->method);
	add(o, "route", e->route);
	(void)json_object_set_new(o, "status", json_integer(e->status));
	(void)json_object_set_new(o, "bytes", json_integer((json_int_t)e->bytes));
	(void)json_object_set_new(o, "took_ms", json_real((double)e->took_ns / 1e6));
	add(o, "peer", e->peer);
	add(o, "user_id", e->user_id);
	add(o, "trace_id", e->trace_id);
	add(o, "run_id", e->run_id);
	size_t n = json_dumpb(
		o, ret, size - 1, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
	if (n >= size)
		return 0;
	ret[n] = '\n';
	return n + 1;
}

void accesslog_write(const struct accesslog_entry *e)
{
	char line[LINE_MAX_SIZE];
	size_t n = accesslog_format(e, line, sizeof(line));
	struct pollfd writable = { .fd = STDERR_FILENO, .events = POLLOUT };

	/* As with other lines of the log: a reader that stalls does not stall us. */
	if (n == 0 || poll(&writable, 1, 0) != 1 || !(writable.revents & POLLOUT))
		return;
	ssize_t written = write(STDERR_FILENO, line, n);
	(void)written;
}
