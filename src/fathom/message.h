/* What a client of the Fathom protocol says: one JSON object per message, checked field by
 * field against one table. Fields that nobody knows are ignored. A complaint goes to the client
 * and nowhere else: of what is no JSON at all it shows the place. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define MESSAGE_VERSION_SPOKEN 1
#define MESSAGE_SIZE_MAX       (1u << 20) /* bytes of one, with all it carries */
#define MESSAGE_ID_MAX         128u       /* bytes of an execution's id */

enum message_type {
	MESSAGE_EXECUTE,
	MESSAGE_CANCEL,
	MESSAGE_PING,
	MESSAGE_TYPE_COUNT,
};

/* Texts belong to `body`; they have no NUL characters inside. */
struct message {
	json_t *body;
	enum message_type type;
	const char *id; /* NULL: none, or none that may be one */

	/* of "execute" */
	const char *language;
	const char *code;
	const char *input; /* NULL: none */
	const json_t *env; /* NULL: none */
	uint64_t timeout_ms;
	uint64_t memory_mb;
	uint64_t cpu_shares; /* 1024 are one core */
	uint64_t max_output_bytes;
};

/* Give `ret` to message_fini() in any case. -EBADMSG with a sentence that says which field is
 * wrong; `ret->id` is then what the message is about, as far as that can be told. */
int message_parse(const char *data, size_t size, struct message *ret, struct err *err);
void message_fini(struct message *m);
