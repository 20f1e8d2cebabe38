/* A run as the answer to whoever waited for it: its status, and with it what it printed and
 * which files it left. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct run;
struct run_row;

/* Bytes of the beginning of stdout and of stderr that an answer carries, and again of the end
 * when the output is longer; GET /runs/{id}/logs has all. */
#define OUTCOME_OUTPUT_MAX (64u << 10)

/* Which request an answer is for. */
enum outcome_for {
	OUTCOME_CREATED,  /* it made the run */
	OUTCOME_REPLAYED, /* an earlier request with the same key made the run */
	OUTCOME_LOOKED_AT,
};

/* Answer with a live run, or with one that just ended. */
void outcome_reply(struct exchange *x, const struct run *run, enum outcome_for what_for);

/* Answer with a run that only the store has, from its row and its files. */
void outcome_reply_stored(struct exchange *x, const struct run_row *row, enum outcome_for what_for);

/* Put `size` bytes of output into `o` as `name`, `name`_encoding ("utf8", or "base64" for what
 * is not) and `name`_truncated. Of text that was cut, a last character that is not whole goes. */
void outcome_add_text(json_t *o, const char *name, const char *data, size_t size, bool is_cut);

/* Put the end of an output into `o` as `name`_tail and `name`_tail_encoding. A first character
 * that is not whole goes. */
void outcome_add_tail(json_t *o, const char *name, const char *data, size_t size);
