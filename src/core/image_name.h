/* What people call an image: one that was imported, "host", or a curated name like
 * "python:3.11-slim", which stands for the host's own files when the host has that language at
 * that version. */
#pragma once
#include "ipc/spec.h"

struct err;

struct image_choice {
	char image[65];     /* "host" or the digits of an imported image */
	char digest[80];    /* "sha256:..." or empty */
	char resolved[300]; /* "host (python 3.11)", or the name it was found by */
};

/* -ENOENT, or another error of image_resolve(), with a sentence that says what to do. Looks at
 * the disk. */
int image_name_resolve(
	const char *root, const char *name, struct image_choice *ret, struct err *err);

/* The curated names that the host itself can stand for, ends with NULL. Looked at once. */
const char *const *image_name_defaults(void);
