#include "mcp/resource_uri.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/artifact.h"
#include "core/utf8.h"

#define SCHEME "belljar://"

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Undo percent-encoding of `size` bytes, once. False for what does not fit or is malformed. */
static bool decode(const char *text, size_t size, char *ret, size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		char c = text[i];

		if (n + 1 >= room)
			return false;
		if (c == '%') {
			int high = i + 2 < size ? digit(text[i + 1]) : -1;
			int low = high >= 0 ? digit(text[i + 2]) : -1;

			if (low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (c == '\0')
			return false;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return n > 0;
}

int resource_uri_parse(const char *uri, struct resource_uri *ret)
{
	size_t tail;

	if (strncmp(uri, SCHEME, strlen(SCHEME)) != 0)
		return -EINVAL;
	const char *name = uri + strlen(SCHEME);
	const char *slash = strchr(name, '/');
	if (!slash || !decode(name, (size_t)(slash - name), ret->session, sizeof(ret->session)) ||
		!decode(slash + 1, strlen(slash + 1), ret->path, sizeof(ret->path)))
		return -EINVAL;
	if (utf8_span(ret->path, strlen(ret->path), &tail) != strlen(ret->path) ||
		!artifact_path_is_safe(ret->path))
		return -EINVAL;
	return 0;
}
