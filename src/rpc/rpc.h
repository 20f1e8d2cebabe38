/* JSON-RPC 2.0: what one message says, and how one is written. Transports bring whole messages;
 * what methods there are is up to who uses this. Any thread.
 *
 * A text is read strictly (base/json.h): no key twice, no NUL, valid UTF-8, not nested deeper
 * than JSON_DEPTH_MAX. How long it may be is up to the transport. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define RPC_METHOD_MAX 128u /* bytes of a method's name */
#define RPC_ID_MAX     256u /* of an id that is a text */
#define RPC_BATCH_MAX  64u  /* messages */

enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
};

enum rpc_kind {
	RPC_REQUEST,
	RPC_NOTIFICATION,
	RPC_RESPONSE,
};

/* Everything is borrowed from the JSON it was made of. */
struct rpc_message {
	enum rpc_kind kind;
	const json_t *id;     /* a text or a number; NULL: a notification, or of a response to
				 something that could not be read */
	const char *method;   /* NULL: a response */
	const json_t *params; /* an object or an array; NULL: none */
	const json_t *result; /* of a response: this ... */
	const json_t *error;  /* ... or this, an object */
};

struct rpc_fault {
	int code; /* enum rpc_code */
	char text[200];
};

/* Read a text: one message, or a batch of 1 to RPC_BATCH_MAX, which is an array. The caller must
 * json_decref() `*ret`. -EBADMSG with a fault for what is neither. */
int rpc_read(const char *text, size_t size, json_t **ret, struct rpc_fault *fault);

/* What `json` says. -EBADMSG with a fault for what is no message; `ret->id` is there all the same
 * when it could be told, so that an error can be answered with. */
int rpc_parse(const json_t *json, struct rpc_message *ret, struct rpc_fault *fault);

/* New messages. `id` is borrowed, and NULL is null; what else there is is taken, and NULL is left
 * out. */
json_t *rpc_result(const json_t *id, json_t *result);
json_t *rpc_error(const json_t *id, int code, const char *text, json_t *data);
json_t *rpc_request(const json_t *id, const char *method, json_t *params);
json_t *rpc_notification(const char *method, json_t *params);
