/* Percent-encoding, and the part of a target behind its "?". Both work in place: what is
 * decoded is never longer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define QUERY_PAIRS_MAX 64u /* parameters of one request */

struct query_pair {
	const char *name;
	const char *value; /* "" when there was no "=" */
};

/* Copy `size` bytes to `ret`, decoded and terminated; it needs size + 1 bytes, and may be
 * `text` itself. Returns the decoded size, or -EBADMSG for a "%" without two hexadecimal
 * digits, and for a NUL. */
int query_unescape(const char *text, size_t size, char *ret);

/* Take `text` apart, which is changed and must outlive the pairs. "+" is a blank. Returns how
 * many there are, -EBADMSG as above, or -E2BIG for more than QUERY_PAIRS_MAX. */
int query_parse(char *text, struct query_pair ret[QUERY_PAIRS_MAX]);
