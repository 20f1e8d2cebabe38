/* Text: comparison, the numbers people type, and the nearest known word. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* The rest of `text` after `prefix`, or NULL when it does not begin with it. */
const char *str_after(const char *text, const char *prefix);

/* A decimal number without sign, blanks or anything behind it, at most `max`.
 * 0, -EINVAL or -ERANGE. */
int str_parse_u64(const char *text, uint64_t max, uint64_t *ret);

/* Bytes: "4096", "64K", "256M", "1.5G", "256MiB"; units are powers of 1024.
 * 0, -EINVAL or -ERANGE. */
int str_parse_bytes(const char *text, uint64_t *ret);

/* Milliseconds: "20s", "500ms", "1.5m", "2h"; a bare number means seconds.
 * 0, -EINVAL or -ERANGE. */
int str_parse_duration(const char *text, uint64_t *ret_ms);

/* A decimal fraction in thousandths, "1.5" -> 1500. 0, -EINVAL or -ERANGE. */
int str_parse_milli(const char *text, uint64_t *ret);

/* Is `word` one of the words of `list`, which commas, blanks or newlines divide? */
bool str_has_word(const char *list, const char *word);

/* Which of the `n` words is nearest to `word`, or NULL when none is near enough
 * to be a slip of the finger (more than a third of its letters differ). */
const char *str_nearest(const char *word, const char *const *words, size_t n);

/* True when `text` is `size` lower-case hexadecimal digits and no more. */
bool str_is_hex(const char *text, size_t size);

/* `n` bytes as 2n such digits and a NUL. */
void str_hex(const void *data, size_t n, char *ret);

/* Duplicate or abort: for small, bounded strings only. */
char *xstrdup(const char *text);

/* Zeroed memory or abort: for small, bounded objects only. */
void *xcalloc(size_t n, size_t size);

#define xnew(type) ((type *)xcalloc(1, sizeof(type)))
