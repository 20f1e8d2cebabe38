/* SHA-256 over a stream, and the "sha256:<hex>" form that images use. */
#pragma once
#include <stddef.h>

#include "base/cleanup.h"

struct err;
struct digest;

/* Hexadecimal digits of a digest, without the terminating NUL. */
#define DIGEST_HEX_SIZE 64

/* A fresh digest that the caller must digest_free(); aborts without memory. */
struct digest *digest_new(void);
void digest_free(struct digest *d);

void digest_add(struct digest *d, const void *data, size_t size);

/* The digest of all that was added; nothing can be added afterwards. */
void digest_end(struct digest *d, char hex[DIGEST_HEX_SIZE + 1]);

/* The digest of `size` bytes. */
void digest_of(const void *data, size_t size, char hex[DIGEST_HEX_SIZE + 1]);

/* Parse "sha256:<64 hex digits>"; -EINVAL, or -ENOTSUP for another algorithm, with
 * a sentence that says `what` it belonged to. */
int digest_parse(
	const char *text, const char *what, char hex[DIGEST_HEX_SIZE + 1], struct err *err);

DEFINE_CLEANUP(struct digest, digest_free)
