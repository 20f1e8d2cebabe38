/* JSON Web Tokens as credentials. The algorithm is the configured one, whatever a token says
 * of itself; a token must expire; `sub` is the user. The only file that knows libjwt. */
#pragma once
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct identity;
struct settings;
struct token;

#define TOKEN_SIZE_MAX (8u << 10)

/* Reads and checks the key. `c` must outlive it. */
int token_open(const struct settings *c, struct token **ret, struct err *err);
void token_free(struct token *t);

/* 0, or -EACCES for a token that is not good at `now_sec`, seconds since 1970. */
int token_check(const struct token *t, const char *text, int64_t now_sec, struct identity *ret);

DEFINE_CLEANUP(struct token, token_free)
