#include "http/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"

static const char begin[] = "=?base64?";
static const char end[] = "?=";
#define BEGIN_SIZE (sizeof(begin) - 1)
#define END_SIZE   (sizeof(end) - 1)

static bool is_encoded(const char *value)
{
	size_t size = strlen(value);

	return size >= BEGIN_SIZE + END_SIZE && memcmp(value, begin, BEGIN_SIZE) == 0 &&
	       memcmp(value + size - END_SIZE, end, END_SIZE) == 0;
}

/* Visible characters, with blanks and tabs only between them. */
static bool is_plain(const char *value)
{
	size_t size = strlen(value);

	for (const char *p = value; *p; p++) {
		if ((*p < 0x20 || *p > 0x7e) && *p != '\t')
			return false;
	}
	return size > 0 && !strchr(" \t", value[0]) && !strchr(" \t", value[size - 1]);
}

char *mirror_encode(const char *text)
{
	size_t size = strlen(text);

	if (is_plain(text) && !is_encoded(text))
		return xstrdup(text);
	char *value = xcalloc(1, BEGIN_SIZE + BASE64_TEXT_SIZE(size) + END_SIZE + 1);
	memcpy(value, begin, BEGIN_SIZE);
	size_t n = base64_encode(text, size, value + BEGIN_SIZE);
	memcpy(value + BEGIN_SIZE + n, end, END_SIZE + 1);
	return value;
}

bool mirror_equals(const char *header, const char *text)
{
	if (!is_plain(header))
		return false;
	if (!is_encoded(header))
		return streq(header, text);
	size_t size = strlen(header) - BEGIN_SIZE - END_SIZE;
	AUTO_FREE uint8_t *bytes = xcalloc(1, BASE64_BYTES_SIZE(size) + 1);
	size_t n = 0;
	return base64_decode(header + BEGIN_SIZE, size, bytes, &n) == 0 && n == strlen(text) &&
	       memcmp(bytes, text, n) == 0;
}
