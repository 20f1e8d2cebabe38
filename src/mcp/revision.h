/* The revisions of MCP that are spoken: one row each, and what differs between them is a column.
 *
 * There are two kinds. With the older ones a client is met by initialize, and has a session from
 * then on. With a stateless one each request is whole by itself: it says in params._meta which
 * revision it is of and what its client can do, and nothing is remembered afterwards. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct rpc_fault;

struct mcp_revision {
	const char *name; /* a date */
	bool is_stateless;
	bool has_batches;
	bool has_links;       /* content of a tool may be a resource_link */
	bool has_first_event; /* a stream begins with an event that has an id and no message */
	int not_found;        /* the code for a resource that is not there */
};

/* NULL for one that is not spoken. */
const struct mcp_revision *mcp_revision_find(const char *name);

/* The newest with sessions: what initialize is answered with when it asks for another. */
const struct mcp_revision *mcp_revision_with_sessions(void);

/* Their names, newest first, as a new array. */
json_t *mcp_revision_names(void);

/* --- what a request of a stateless revision says of itself --- */

#define MCP_META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"
#define MCP_META_SERVER       "io.modelcontextprotocol/serverInfo"
#define MCP_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

/* Codes of errors that such revisions define. */
enum mcp_code {
	MCP_HEADER_MISMATCH = -32020,
	MCP_MISSING_CAPABILITY = -32021,
	MCP_UNSUPPORTED_VERSION = -32022,
};

/* Borrowed from the request. */
struct mcp_meta {
	const struct mcp_revision *revision;
	json_t *capabilities; /* an object */
	int log_level;        /* see call.h; -1: it wants no log messages */
};

/* The version that `params` name; NULL when they name none. */
const char *mcp_meta_version(const json_t *params);

/* 0, or -EBADMSG with a fault when something is missing or wrong, or the revision is not one that
 * is stateless. */
int mcp_meta_read(const json_t *params, struct mcp_meta *ret, struct rpc_fault *fault);
