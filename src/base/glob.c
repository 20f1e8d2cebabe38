#include "base/glob.h"

#include <stddef.h>
#include <string.h>

/* One `[...]` set at `p` against `c`. Returns the length of the set, with the
 * answer in `*hit`; 0 when it has no end and so stands for itself. */
static size_t match_set(const char *p, const char *end, unsigned char c, bool *hit)
{
	const char *q = p + 1;
	bool negated = q < end && (*q == '!' || *q == '^');
	bool found = false;

	q += negated;
	for (const char *first = q; q < end && (*q != ']' || q == first); q++) {
		unsigned char low = (unsigned char)*q;
		unsigned char high = low;

		if (q + 2 < end && q[1] == '-' && q[2] != ']') {
			high = (unsigned char)q[2];
			q += 2;
		}
		found = found || (low <= c && c <= high);
	}
	if (q >= end)
		return 0;
	*hit = found != negated;
	return (size_t)(q - p) + 1;
}

/* One element of a component's pattern against one character; the element's
 * length, or 0 when it does not match. */
static size_t match_one(const char *p, const char *end, unsigned char c)
{
	bool hit = false;

	if (*p == '?')
		return 1;
	if (*p == '[') {
		size_t n = match_set(p, end, c, &hit);
		if (n)
			return hit ? n : 0;
	}
	if (*p == '\\' && p + 1 < end)
		return (unsigned char)p[1] == c ? 2 : 0;
	return (unsigned char)*p == c ? 1 : 0;
}

/* One component. Remembering only the last star is enough: an earlier one could
 * only take characters that the later one can take as well. */
static bool match_part(const char *p, const char *p_end, const char *s, const char *s_end)
{
	const char *star = NULL;
	const char *star_text = NULL;

	while (s < s_end) {
		size_t n = 0;

		if (p < p_end && *p == '*') {
			star = p++;
			star_text = s;
			continue;
		}
		if (p < p_end)
			n = match_one(p, p_end, (unsigned char)*s);
		if (n) {
			p += n;
			s++;
		} else if (star) {
			p = star + 1;
			s = ++star_text;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*')
		p++;
	return p == p_end;
}

static const char *part_end(const char *s)
{
	return s + strcspn(s, "/");
}

static const char *next_part(const char *end)
{
	return *end == '/' ? end + 1 : end;
}

/* The same idea as in match_part(), with components for characters and `**` for
 * the star. */
static bool match_parts(const char *p, const char *s)
{
	const char *star = NULL;
	const char *star_text = NULL;

	while (*s) {
		const char *p_end = part_end(p);
		const char *s_end = part_end(s);

		if (p_end - p == 2 && p[0] == '*' && p[1] == '*') {
			star = p = next_part(p_end);
			star_text = s;
			if (!*p)
				return true;
		} else if (*p && match_part(p, p_end, s, s_end)) {
			p = next_part(p_end);
			s = next_part(s_end);
			if (!*p && *s && !star)
				return false;
		} else if (star) {
			p = star;
			s = star_text = next_part(part_end(star_text));
		} else {
			return false;
		}
	}
	while (p[0] == '*' && p[1] == '*' && (p[2] == '/' || !p[2]))
		p = next_part(p + 2);
	return !*p;
}

bool glob_match(const char *pattern, const char *path)
{
	if (!strchr(pattern, '/')) {
		const char *slash = strrchr(path, '/');

		if (slash && match_parts(pattern, slash + 1))
			return true;
	}
	return match_parts(pattern, path);
}
