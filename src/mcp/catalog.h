/* What a server offers over MCP: tables of tools, resources and prompts, and what answers for
 * them. A peer speaks the protocol and looks everything up here, so a program with other tables
 * is another server.
 *
 * Everything that is asked is a call (call.h), and is answered once, now or later. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct call;
struct mcp_catalog;
struct mcp_peer;

struct mcp_tool {
	const char *name;
	const char *title;
	const char *description;
	const char *input_schema;  /* JSON text; arguments are checked against it (shape.h) */
	const char *output_schema; /* JSON text, or NULL: no structuredContent is promised */
	const char *annotations;   /* JSON text, or NULL */
	/* `arguments` is an object that fits the schema, borrowed. Answers with call_finish_tool(),
	 * call_fail_tool(), or call_fail(). */
	void (*run)(struct call *c, const json_t *arguments);
};

struct mcp_prompt {
	const char *name;
	const char *title;
	const char *description;
	const char *arguments; /* JSON text: array of {name, description, required} */
	/* Answers with {description, messages}; what is required is there, and all are texts. */
	void (*get)(struct call *c, const json_t *arguments);
};

/* All of it is optional; NULL tables are empty. */
struct mcp_catalog {
	const char *name; /* of the server */
	const char *title;
	const char *instructions;                /* for the model, or NULL */
	const struct mcp_tool *const *tools;     /* ends with NULL */
	const struct mcp_prompt *const *prompts; /* ends with NULL */
	const char *templates;                   /* JSON text: array of resource templates */
	/* {"resources": [], "nextCursor"?}; `cursor` is NULL for the first page. */
	void (*list_resources)(struct call *c, const char *cursor);
	/* {"contents": []}, or call_fail() with CALL_RESOURCE_NOT_FOUND. */
	void (*read_resource)(struct call *c, const char *uri);
	/* Subscribe the peer to it (mcp_peer_subscribe()) and answer with {}, or call_fail(). */
	void (*subscribe)(struct call *c, const char *uri);
	/* {"completion": {"values": [], "total"?, "hasMore"?}}; `ref` and `argument` have the
	 * members that the protocol says. */
	void (*complete)(struct call *c, const json_t *ref, const json_t *argument);
};

/* The catalog of this service: catalog.c. */
extern const struct mcp_catalog mcp_catalog;
