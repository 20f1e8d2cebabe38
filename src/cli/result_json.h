/* A run as one JSON object: what it printed, how it ended, what it used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct belljar_error;
struct belljar_result;

/* What a guest printed on one stream, up to a limit. */
struct capture_text {
	char *data;
	size_t size;
	bool truncated;
};

/* Write the object and a newline to stdout. `result` is NULL when `error` kept
 * the run from being reported at all. */
void result_json_print(const struct belljar_result *result, const struct belljar_error *error,
	const struct capture_text *out, const struct capture_text *err);
