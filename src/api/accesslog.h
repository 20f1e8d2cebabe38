/* One JSON line on stderr per request: method, route, status, time, who, trace and run. Never
 * a query string, a header or a raw path, which may hold secrets. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct accesslog_entry {
	const char *method;
	const char *route; /* its pattern; NULL: there is none */
	int status;
	uint64_t bytes;
	uint64_t took_ns;
	const char *peer;
	const char *user_id; /* NULL: not known, here and below */
	const char *trace_id;
	const char *run_id;
};

/* Into `size` bytes, with a newline at its end; the length. */
size_t accesslog_format(const struct accesslog_entry *e, char *ret, size_t size);

/* Write it, or lose it when stderr can not take it now. */
void accesslog_write(const struct accesslog_entry *e);
