#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}

int err_errno(struct err *err, const char *fmt, ...)
{
	int code = errno > 0 ? -errno : -EIO;
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);

	size_t used = strlen(err->text);
	(void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(-code));
	return code;
}

int err_wrap(struct err *err, int code, const char *what)
{
	char inner[sizeof(err->text)];

	if (!err)
		return code;
	memcpy(inner, err->text, sizeof(inner));
	err->code = code;
	int n = snprintf(err->text, sizeof(err->text), "%s: ", what);
	if (n > 0 && (size_t)n < sizeof(err->text))
		(void)snprintf(err->text + n, sizeof(err->text) - (size_t)n, "%s", inner);
	return code;
}
