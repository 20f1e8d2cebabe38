/* JSON-RPC messages, as far as somebody who passes them on must understand them: which kind,
 * which id, and the few methods that matter to a session of MCP. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum message_kind {
	MESSAGE_REQUEST,      /* expects an answer with its id */
	MESSAGE_NOTIFICATION, /* expects none */
	MESSAGE_RESPONSE,     /* to a request of the server */
	MESSAGE_BATCH,        /* an array of them */
};

/* Codes of errors that are ours to say. */
#define MESSAGE_PARSE_ERROR     (-32700)
#define MESSAGE_INVALID_REQUEST (-32600)
#define MESSAGE_SERVER_ERROR    (-32000)

struct message {
	enum message_kind kind;
	json_t *id; /* a text or a number; NULL without */
	bool is_initialize;
	bool is_initialized;
	bool is_listen;  /* a request that goes on until it is canceled */
	char *fields;    /* of a request that belongs to no session, since it says itself which
			    version it is of: lines of the head that say so. NULL: it does not */
	json_t *cancels; /* the id of the request that it cancels; NULL if it is not about that */
};

/* Of a line, or of what the server sends. 0 with what message_fini() takes; -EBADMSG with a
 * sentence for what is no JSON, -EINVAL for JSON that is no message; `ret->id` is set then too
 * if there is one. */
int message_parse(const char *text, size_t size, struct message *ret, struct err *err);
void message_fini(struct message *m);

/* An answer that says what went wrong; the caller frees it. `id` may be NULL. */
char *message_error(const json_t *id, int code, const char *text);

/* What an answer with an HTTP error status says, in one sentence: the message of a JSON-RPC
 * error, or the detail of one of ours, else the status. The caller frees it. */
char *message_explain(int status, const char *body, size_t size);

/* Is this the text of a JSON-RPC answer? */
bool message_is_answer(const char *body, size_t size);

/* `result.protocolVersion` of the answer to initialize; the caller frees it; NULL without. */
char *message_version(const char *body, size_t size);
