#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"

static enum log_level threshold = LOG_LEVEL_WARN;
static bool as_json;

static const char *const level_names[] = {
	[LOG_LEVEL_DEBUG] = "debug",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_WARN] = "warn",
	[LOG_LEVEL_ERROR] = "error",
};

void log_set_level(enum log_level level)
{
	threshold = level;
}

void log_set_json(bool on)
{
	as_json = on;
}

int log_parse_level(const char *text, enum log_level *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (strcmp(text, level_names[i]) == 0) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* Append `text` to `line` with everything escaped that could end the value, and for JSON also
 * what may not be UTF-8. */
static size_t append_escaped(char *line, size_t used, size_t size, const char *text)
{
	for (const char *p = text; *p && used + 7 < size; p++) {
		unsigned char c = (unsigned char)*p;

		if (c == '"' || c == '\\') {
			line[used++] = '\\';
			line[used++] = (char)c;
		} else if (c < 0x20 || c == 0x7f || (as_json && c > 0x7f)) {
			used += (size_t)snprintf(
				line + used, size - used, as_json ? "\\u%04x" : "\\x%02x", c);
		} else {
			line[used++] = (char)c;
		}
	}
	return used;
}

static size_t begin_line(enum log_level level, char *line, size_t size)
{
	char now[DATE_SIZE + 1];

	if (!as_json)
		return (size_t)snprintf(line, size, "level=%s msg=\"", level_names[level]);
	date_format(clock_realtime_ns(), now);
	return (size_t)snprintf(
		line, size, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":\"", now, level_names[level]);
}

/* A reader that stalls must not stall us: rather a line is lost. A pipe that is writable takes a
 * line whole, in one write, so lines do not interleave. */
static void write_out(const char *line, size_t size)
{
	struct pollfd writable = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&writable, 1, 0) != 1 || !(writable.revents & POLLOUT))
		return;
	ssize_t written = write(STDERR_FILENO, line, size);
	(void)written;
}

static void write_line(enum log_level level, const char *fmt, va_list ap)
{
	char text[1024];
	char line[4096];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	size_t used = begin_line(level, line, sizeof(line));
	used = append_escaped(line, used, sizeof(line) - 3, text);
	line[used++] = '"';
	if (as_json)
		line[used++] = '}';
	line[used++] = '\n';
	write_out(line, used);
}

void log_members(enum log_level level, const char *msg, const char *members)
{
	char line[4096];

	if (level < threshold)
		return;
	size_t used = begin_line(level, line, sizeof(line));
	used = append_escaped(line, used, 1024, msg);
	/* The object goes on: its brace is there. */
	int n = snprintf(line + used, sizeof(line) - used, as_json ? "\",%s\n" : "\" %s\n",
		as_json ? members + 1 : members);
	if (n > 0 && (size_t)n < sizeof(line) - used)
		write_out(line, used + (size_t)n);
}

void log_raw(const char *lines, size_t size)
{
	write_out(lines, size);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	if (level < threshold)
		return;
	va_start(ap, fmt);
	write_line(level, fmt, ap);
	va_end(ap);
}

int log_error(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(LOG_LEVEL_ERROR, fmt, ap);
	va_end(ap);
	return code;
}
