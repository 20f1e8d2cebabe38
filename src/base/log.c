#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static enum log_level threshold = LOG_LEVEL_WARN;

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

/* Append `text` to `line` with everything escaped that could end the value. */
static size_t append_escaped(char *line, size_t used, size_t size, const char *text)
{
	for (const char *p = text; *p && used + 5 < size; p++) {
		unsigned char c = (unsigned char)*p;

		if (c == '"' || c == '\\') {
			line[used++] = '\\';
			line[used++] = (char)c;
		} else if (c < 0x20 || c == 0x7f) {
			used += (size_t)snprintf(line + used, size - used, "\\x%02x", c);
		} else {
			line[used++] = (char)c;
		}
	}
	return used;
}

static void write_line(enum log_level level, const char *fmt, va_list ap)
{
	char text[1024];
	char line[2048];

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	size_t used = (size_t)snprintf(line, sizeof(line), "level=%s msg=\"", level_names[level]);
	used = append_escaped(line, used, sizeof(line) - 2, text);
	line[used++] = '"';
	line[used++] = '\n';
	/* A reader that stalls must not stall us: rather a line is lost. A pipe that is
	 * writable takes a line whole, in one write, so lines do not interleave. */
	struct pollfd writable = { .fd = STDERR_FILENO, .events = POLLOUT };
	if (poll(&writable, 1, 0) != 1 || !(writable.revents & POLLOUT))
		return;
	ssize_t written = write(STDERR_FILENO, line, used);
	(void)written;
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
