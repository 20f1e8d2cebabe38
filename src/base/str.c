#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

const char *str_after(const char *text, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

bool str_has_word(const char *list, const char *word)
{
	static const char dividers[] = ", \n";
	size_t n = strlen(word);

	for (const char *p = list; *p; p += strspn(p, dividers)) {
		size_t len = strcspn(p, dividers);

		if (len == n && strncmp(p, word, n) == 0)
			return true;
		p += len;
	}
	return false;
}

/* Digits into `*value`; returns the first character behind them, or NULL when
 * there are none or the value passes `max`. */
static const char *scan_digits(const char *p, uint64_t max, uint64_t *value)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)*p))
		return NULL;
	for (; isdigit((unsigned char)*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (digit > max || v > (max - digit) / 10)
			return NULL;
		v = v * 10 + digit;
	}
	*value = v;
	return p;
}

int str_parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	const char *end = scan_digits(text, max, &v);
	if (!end)
		return -ERANGE;
	if (*end)
		return -EINVAL;
	*ret = v;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/* Finer than any of our units needs. */
#define FRACTION_DIGITS_MAX 6

/* "1.5" and one of `units` behind it. */
static int parse_scaled(const char *text, const struct unit *units, size_t n_units, uint64_t *ret)
{
	uint64_t whole = 0;
	uint64_t part = 0;
	uint64_t scale = 1;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	const char *p = scan_digits(text, UINT64_MAX / 1000000, &whole);
	if (!p)
		return -ERANGE;
	if (*p == '.') {
		const char *end = scan_digits(p + 1, 999999, &part);
		if (!end)
			return -EINVAL;
		if (end - (p + 1) > FRACTION_DIGITS_MAX)
			return -EINVAL;
		for (const char *q = p + 1; q < end; q++)
			scale *= 10;
		p = end;
	}
	for (size_t i = 0; i < n_units; i++) {
		uint64_t factor = units[i].factor;

		if (strcasecmp(p, units[i].name) != 0)
			continue;
		if (whole > (UINT64_MAX / 2) / factor)
			return -ERANGE;
		/* part < scale <= 10^6, and factors stay below 2^44: no overflow */
		*ret = whole * factor + part * factor / scale;
		return 0;
	}
	return -EINVAL;
}

int str_parse_bytes(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "K", 1ULL << 10 },
		{ "KB", 1ULL << 10 },
		{ "KiB", 1ULL << 10 },
		{ "M", 1ULL << 20 },
		{ "MB", 1ULL << 20 },
		{ "MiB", 1ULL << 20 },
		{ "G", 1ULL << 30 },
		{ "GB", 1ULL << 30 },
		{ "GiB", 1ULL << 30 },
		{ "T", 1ULL << 40 },
		{ "TB", 1ULL << 40 },
		{ "TiB", 1ULL << 40 },
	};

	return parse_scaled(text, units, ARRAY_SIZE(units), ret);
}

int str_parse_duration(const char *text, uint64_t *ret_ms)
{
	static const struct unit units[] = {
		{ "", 1000 },
		{ "s", 1000 },
		{ "ms", 1 },
		{ "m", 60000 },
		{ "h", 3600000 },
	};

	return parse_scaled(text, units, ARRAY_SIZE(units), ret_ms);
}

int str_parse_milli(const char *text, uint64_t *ret)
{
	static const struct unit units[] = { { "", 1000 } };

	return parse_scaled(text, units, ARRAY_SIZE(units), ret);
}

#define NEAREST_WORD_MAX 63

/* Edit distance of two words (insert, delete, replace each cost one). */
static size_t distance(const char *a, const char *b)
{
	size_t row[NEAREST_WORD_MAX + 1];
	size_t nb = strlen(b);

	for (size_t j = 0; j <= nb; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			size_t above = row[j];
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[nb];
}

const char *str_nearest(const char *word, const char *const *words, size_t n)
{
	const char *best = NULL;
	size_t best_distance = strlen(word) / 3 + 1;

	if (strlen(word) > NEAREST_WORD_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (strlen(words[i]) > NEAREST_WORD_MAX)
			continue;
		size_t d = distance(word, words[i]);
		if (d <= best_distance && (!best || d < best_distance)) {
			best = words[i];
			best_distance = d;
		}
	}
	return best;
}

bool str_is_hex(const char *text, size_t size)
{
	return strlen(text) == size && strspn(text, "0123456789abcdef") == size;
}

void str_hex(const void *data, size_t n, char *ret)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = data;

	for (size_t i = 0; i < n; i++) {
		*ret++ = digits[bytes[i] >> 4];
		*ret++ = digits[bytes[i] & 15];
	}
	*ret = '\0';
}

char *xstrdup(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		abort();
	return copy;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		abort();
	return p;
}
