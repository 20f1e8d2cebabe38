/* The run that an "execute" asks for, as any door asks for one: the body of POST /runs. */
#pragma once
#include <jansson.h>

struct lang;
struct fathom_message;

/* A new object in which nothing is the message's own. */
json_t *wish_make(const struct fathom_message *m, const struct lang *l, const char *image);

/* What "cpu_shares" count. */
#define WISH_SHARES_PER_CORE 1024u
