/* The content of a file that was copied out of a session, in memory, and what it can be shown
 * as. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct session_file;

struct contents {
	char *data; /* a NUL follows */
	size_t size;
	const char *mime;   /* the file's; of an image, and what is called one, by its content */
	const char *sha256; /* the file's */
	bool is_image;      /* that a model can look at */
};

/* 0, or a negative errno. The caller has looked how large it is. */
int contents_read(const struct session_file *file, struct contents *ret);
void contents_fini(struct contents *c);

bool contents_is_text(const struct contents *c); /* UTF-8 without NUL */
json_t *contents_base64(const struct contents *c);
