/* The methods of the protocol: one table, each with who answers it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct call;
struct mcp_peer;
struct mcp_revision;

/* What a method is part of, and what it may do. */
enum method_flags {
	METHOD_MET = 1u << 0,       /* of revisions with sessions */
	METHOD_STATELESS = 1u << 1, /* of stateless ones */
	METHOD_ANY = METHOD_MET | METHOD_STATELESS,
	METHOD_EARLY = 1u << 2, /* allowed before the client was met */
};

struct method {
	const char *name;
	unsigned flags;
	/* A request; answers it. `params` is an object, maybe an empty one. */
	void (*handle)(struct call *c, const json_t *params);
	/* Or a notification. */
	void (*hear)(struct mcp_peer *p, const json_t *params);
	const char *subject;     /* the member of params that says what it is about, or NULL */
	const char *cache_scope; /* of a result that may be kept: "public" or "private"; or NULL */
	int64_t cache_ms;        /* ... and for how long */
};

/* NULL for one that this revision does not have. Without a revision, those with sessions. */
const struct method *method_find(const char *name, const struct mcp_revision *revision);
