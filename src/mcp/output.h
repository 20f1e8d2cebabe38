/* What a program printed, as a model is to see it: valid UTF-8, and of too much the beginning and
 * the end, with a line between that says how much is missing. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream;

/* A text of any bytes: what is no UTF-8 becomes U+FFFD, NUL too. */
json_t *output_text(const char *data, size_t size);

/* `size` bytes of `total`, which begin with `n_head` bytes of the beginning and end with those of
 * the end; no character is cut in two. */
json_t *output_join(
	const char *head, size_t n_head, const char *tail, size_t n_tail, uint64_t total);

/* What a run printed; `is_err` is stderr. At most `max` bytes and a line of ours;
 * `*ret_is_cut` is set when that is not all. */
json_t *output_read(struct stream *s, bool is_err, size_t max, bool *ret_is_cut);

/* The traceback of Python's at the end of what was printed to stderr, from its first line to its
 * last, or null. `code_name` is what the program is called in there. `*ret_is_cut` is set when so
 * much follows it that not all of that can be its message. */
#define OUTPUT_TRACEBACK_MAX (1u << 20)  /* bytes from the end that are searched */
#define OUTPUT_MESSAGE_MAX   (64u << 10) /* behind the line that names the exception */
json_t *output_traceback(struct stream *s, const char *code_name, bool *ret_is_cut);
/* How far the one at `start` reaches; it begins later when what is between two of them is too
 * much to be part of both. */
const char *output_bound_traceback(const char *start, size_t *ret_size);
const char *output_find_traceback(const char *text, const char *code_name);
