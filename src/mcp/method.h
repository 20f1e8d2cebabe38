/* The methods of the protocol: one table, each with who answers it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct call;
struct mcp_peer;

struct method {
	const char *name;
	bool is_early; /* allowed before the client was met */
	/* A request; answers it. `params` is an object, maybe an empty one. */
	void (*handle)(struct call *c, const json_t *params);
	/* Or a notification. */
	void (*hear)(struct mcp_peer *p, const json_t *params);
};

const struct method *method_find(const char *name);
