#include "http/range.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MAX 19 /* 10^19 - 1 fits 64 bits */

static const char unit[] = "bytes=";

/* Take a number off `*text`; false when there is none. A longer one is larger than any file. */
static bool take_number(const char **text, uint64_t *ret)
{
	size_t n = strspn(*text, "0123456789");
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value = i < DIGITS_MAX ? value * 10 + (uint64_t)((*text)[i] - '0') : UINT64_MAX;
	*text += n;
	*ret = value;
	return n > 0;
}

/* The first and last byte, or false. */
static bool parse(const char *text, uint64_t file_size, uint64_t *ret_first, uint64_t *ret_last)
{
	bool has_first = take_number(&text, ret_first);

	if (*text++ != '-' || file_size == 0)
		return false;
	bool has_last = take_number(&text, ret_last);
	if (*text != '\0' || (!has_first && !has_last))
		return false;
	if (!has_first) {
		if (*ret_last == 0)
			return false;
		*ret_first = *ret_last < file_size ? file_size - *ret_last : 0;
		*ret_last = file_size - 1;
	}
	if (!has_last || *ret_last >= file_size) {
		if (has_last && *ret_last < *ret_first)
			return false;
		*ret_last = file_size - 1;
	}
	return *ret_first <= *ret_last;
}

enum range_verdict range_parse(
	const char *header, uint64_t file_size, uint64_t *ret_offset, uint64_t *ret_size)
{
	uint64_t first = 0;
	uint64_t last = 0;

	if (!header) {
		*ret_offset = 0;
		*ret_size = file_size;
		return RANGE_WHOLE;
	}
	if (strncasecmp(header, unit, sizeof(unit) - 1) != 0 ||
		!parse(header + sizeof(unit) - 1, file_size, &first, &last))
		return RANGE_UNSATISFIABLE;
	*ret_offset = first;
	*ret_size = last - first + 1;
	return RANGE_PART;
}

size_t range_count(const char *header)
{
	size_t n = 0;

	if (strncasecmp(header, unit, sizeof(unit) - 1) != 0)
		return 0;
	for (const char *at = header + sizeof(unit) - 1; *at; n++) {
		at += strcspn(at, ",");
		at += strspn(at, ", \t");
	}
	return n;
}
