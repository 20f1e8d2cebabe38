/* The head of an HTTP/1 request. Strict, because two parsers that read one head differently
 * are a hole: lines end with CR LF, names are tokens followed by a colon, nothing is folded,
 * and a body has exactly one way to say how long it is. Pure functions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_TARGET_MAX 8000u /* more is 414 */
#define HEAD_FIELDS_MAX 100u  /* more is 431 */

struct head_field {
	const char *name; /* in lower case */
	const char *value;
};

struct head {
	const char *method;
	const char *path; /* as it came, without the query */
	char *query;      /* may be changed; NULL without "?" */
	size_t path_size;
	struct head_field fields[HEAD_FIELDS_MAX];
	size_t n_fields;
	uint64_t length; /* of the body, unless it is chunked */
	bool is_chunked;
	bool is_old;           /* HTTP/1.0 */
	bool keeps_alive;      /* as far as the client goes */
	bool expects_continue; /* and waits for it before it sends the body */
	bool wants_websocket;
};

/* What is wrong, in the words of an answer. */
struct head_fault {
	int status;
	const char *code;
	const char *message;
};

/* The size of the head that `data` begins with, its empty line included, or 0 while there is
 * none. `*scanned`, 0 at first, spares looking twice. */
size_t head_find_end(const char *data, size_t size, size_t *scanned);

/* Parse a head, of the size that head_find_end() said. `text` is changed, and what is found
 * points into it. 0, or -EBADMSG with `*ret_fault`; `ret` is then half filled. */
int head_parse(char *text, size_t size, struct head *ret, struct head_fault *ret_fault);

/* The first field of a lower-case name, or NULL. */
const char *head_find(const struct head *h, const char *name);

/* Whether a list like "keep-alive, Upgrade" holds `word`, in any case. */
bool head_has_word(const char *list, const char *word);
