/* One request of a client, from when it came until it is answered. Whoever works on it answers it
 * exactly once, also when it was canceled: nobody hears that then. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/date.h"
#include "rpc/rpc.h"

struct call;
struct mcp_tool;
struct mcp_peer;
struct method;
struct problem;
struct service;

/* Codes of errors beside those of rpc.h. */
enum call_code {
	CALL_RESOURCE_NOT_FOUND = -32002,
	CALL_BUSY = -32000,
};

/* Levels of log messages, as syslog has them; the larger, the more severe. */
enum call_level {
	CALL_DEBUG,
	CALL_INFO,
	CALL_NOTICE,
	CALL_WARNING,
	CALL_ERROR,
	CALL_CRITICAL,
	CALL_ALERT,
	CALL_EMERGENCY,
	CALL_LEVELS,
};
const char *call_level_name(enum call_level level);
int call_level_find(const char *name); /* or -1 */

struct call {
	LIST_ENTRY(call) link; /* its peer's */
	struct mcp_peer *peer;
	const struct method *method;
	json_t *id;
	void *origin;
	json_t *progress_token; /* NULL: it wants no progress */
	double progress;        /* what was told last */
	char trace_id[33];
	json_t *context;  /* of the request it makes: from _meta; NULL: none */
	json_t *warnings; /* sentences for its answer; NULL: none */
	bool is_canceled;
	const struct mcp_tool *tool;    /* while it runs one */
	json_t *session_id;             /* that it named; NULL: none */
	char expired_at[DATE_SIZE + 1]; /* when that did before it was made anew; "": it did not */
	uint64_t since_ns;
	/* For whoever works on it; both may be NULL, and each is called at most once. */
	void (*cancel)(struct call *c);  /* the client wants no answer: end the work */
	void (*abandon)(struct call *c); /* we end: answer now, the work may go on */
	void *work;
};

/* Bytes of a text of the context; a longer one is left out. */
#define CALL_CONTEXT_MAX 256u

struct service *call_service(const struct call *c);

/* --- answers: the call is no more afterwards --- */

void call_finish(struct call *c, json_t *result); /* takes it; NULL is {} */
void call_fail(struct call *c, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Of a tool: takes `content`, an array, and `structured`, an object or NULL. Without content,
 * `structured` becomes a text there. With an image in `content`, `structured` is left out: clients
 * that prefer it (Codex 0.169) would not show the image to their model. So it has to be in
 * `content` as well, and the tool must have no output_schema. */
void call_finish_tool(struct call *c, json_t *content, json_t *structured, bool is_error);

/* A tool failed: a sentence that its caller can act upon. */
void call_fail_tool(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ... because core refused it. */
void call_refuse_tool(struct call *c, const struct problem *problem);

/* {"type": "text", "text": ...} of bytes that may be anything. */
json_t *call_text(const char *text);

/* --- before the answer --- */

/* `progress` grows each time, or nothing is told; `total` 0 is not known. `message` may be NULL. */
void call_progress(struct call *c, double progress, double total, const char *message);

/* Takes `data`. */
void call_log(struct call *c, enum call_level level, const char *logger, json_t *data);

/* Ask the client something, such as "sampling/createMessage"; takes `params`. `answered` is called
 * once, maybe from within: with a result, or with an error, also when the client does not have
 * that capability ("sampling"), or is gone. */
void call_ask(struct call *c, const char *capability, const char *method, json_t *params,
	void (*answered)(struct call *c, const json_t *result, const json_t *error));

/* --- for mcp_peer.c and method.c --- */

/* A notification that belongs to a call which listens, with its id; takes `params`, an object
 * or NULL.
 * False when it can not be delivered, ever. */
bool call_tell_listener(struct call *c, const char *method, json_t *params);

struct call *call_begin(
	struct mcp_peer *p, const struct method *method, const struct rpc_message *m, void *origin);
void call_be_canceled(struct call *c);
void call_be_abandoned(struct call *c);
