/* What a client of the Fathom protocol says: one JSON object per message, checked field by
 * field against one table. A field that is not in the table is refused by its name, or only warned
 * of, as the setting unknown_fields says. A complaint goes to the client and nowhere else: of what
 * is no JSON at all it shows the place. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define FATHOM_VERSION_SPOKEN 1
#define FATHOM_TEXT_MAX       (1u << 20) /* bytes of code, and of input */
#define FATHOM_ID_MAX         128u       /* bytes of an execution's id */

/* Bytes of a message, with all it carries. What is too long for us and not for this is refused
 * like any other mistake; what is too long for this ends the connection. */
#define FATHOM_MESSAGE_MAX (4u << 20)

enum fathom_type {
	FATHOM_EXECUTE,
	FATHOM_CANCEL,
	FATHOM_PING,
	FATHOM_TYPE_COUNT,
};

/* Texts belong to `body`; they have no NUL characters inside. */
struct fathom_message {
	json_t *body;
	json_t *warnings; /* an array: a sentence about each name that is not known */
	enum fathom_type type;
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

/* Give `ret` to fathom_message_fini() in any case. -EBADMSG with a sentence that says which field
 * is wrong; `ret->id` is then what the message is about, as far as that can be told. */
int fathom_message_parse(
	const char *data, size_t size, struct fathom_message *ret, struct err *err);
void fathom_message_fini(struct fathom_message *m);
