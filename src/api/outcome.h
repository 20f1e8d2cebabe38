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

/* Bytes of stdout and of stderr that an answer carries; the stream has all. */
#define OUTCOME_OUTPUT_MAX (64u << 10)

/* Answer with a live run, or with one that just ended, made by this request or an earlier one. */
void outcome_reply(struct exchange *x, const struct run *run, bool is_replay);

/* Answer with one of an earlier request that is over, from its row and its files. */
void outcome_reply_stored(struct exchange *x, const struct run_row *row);

/* Put `size` bytes of output into `o` as `name`, `name`_encoding ("utf8", or "base64" for what
 * is not) and `name`_truncated. Of text that was cut, a last character that is not whole goes. */
void outcome_add_text(json_t *o, const char *name, const char *data, size_t size, bool is_cut);
