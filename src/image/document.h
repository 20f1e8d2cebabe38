/* JSON from outside: an index, a manifest, a configuration. Everything about it
 * is bounded before the parser allocates for it. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/json.h"

struct err;

#define DOCUMENT_SIZE_MAX  (4u << 20)
#define DOCUMENT_DEPTH_MAX 32u

/* Parse `size` bytes into an object or array that the caller must json_decref().
 * `what` names the document in messages. -EFBIG when it is too large or too deep,
 * -EBADMSG when it is not JSON or a key stands twice in one object. */
int document_parse(const char *text, size_t size, const char *what, json_t **ret, struct err *err);

/* Read and parse the whole of `fd`. */
int document_read(int fd, const char *what, json_t **ret, struct err *err);
