/* One line per event to stderr: `level=info msg="..."`. The process that
 * decides about an error logs it, once; everyone below only returns it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARN,
	LOG_LEVEL_ERROR,
};

/* Lines below `level` are dropped. The default is LOG_LEVEL_WARN. */
void log_set_level(enum log_level level);

/* From now on a line is a JSON object with ts, level and msg, as a server's log is. */
void log_set_json(bool on);

/* Parse "debug", "info", "warn" or "error"; -EINVAL otherwise. */
int log_parse_level(const char *text, enum log_level *ret);

/* Write one line, or lose it when stderr can not take it now; control characters, quotes and
 * backslashes in the finished text are escaped, so user-controlled text can not forge a second
 * line. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same with members beside it: `members` is an object of JSON, not empty, in one line of
 * ASCII, which no user can have made longer than 2 KiB. */
void log_members(enum log_level level, const char *msg, const char *members);

/* Pass on lines that another process of ours has logged, or lose them likewise. */
void log_raw(const char *lines, size_t size);

#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)

/* Logs and returns `code`, so that callers write `return log_error(r, ...)`. */
int log_error(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
