#include "http/query.h"

#include <errno.h>
#include <string.h>

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int query_unescape(const char *text, size_t size, char *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		char c = text[i];

		if (c == '%') {
			int high = i + 2 < size ? digit_of(text[i + 1]) : -1;
			int low = high >= 0 ? digit_of(text[i + 2]) : -1;
			if (low < 0)
				return -EBADMSG;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (c == '\0')
			return -EBADMSG;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return (int)n;
}

static int decode(char *text)
{
	size_t size = strlen(text);

	for (char *plus = text; (plus = strchr(plus, '+'));)
		*plus = ' ';
	return query_unescape(text, size, text);
}

static int parse_pair(char *text, struct query_pair *ret)
{
	char *equals = strchr(text, '=');

	ret->value = equals ? equals + 1 : "";
	if (equals)
		*equals = '\0';
	ret->name = text;
	if (decode(text) < 0 || (equals && decode(equals + 1) < 0))
		return -EBADMSG;
	return 0;
}

int query_parse(char *text, struct query_pair ret[QUERY_PAIRS_MAX])
{
	unsigned n = 0;

	for (char *part = text, *next = NULL; part; part = next) {
		char *end = strchr(part, '&');

		next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		if (*part == '\0')
			continue;
		if (n == QUERY_PAIRS_MAX)
			return -E2BIG;
		int r = parse_pair(part, &ret[n]);
		if (r < 0)
			return r;
		n++;
	}
	return (int)n;
}
