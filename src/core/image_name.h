/* What people call an image: one that was imported, "host", or a curated name like
 * "python:3.11-slim". A curated name stands for the host's own files when the host has that
 * program or distribution at that version, and for nothing otherwise. The part of a tag after
 * the version, as in "-slim" or "-alpine", says nothing about the version and is not looked at. */
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

/* Whether a curated name stands for the host whose files are below `top` ("" is this host): 0,
 * -ENOENT with a sentence, or -EINVAL when the name is not a curated one. */
int image_name_match(const char *top, const char *name, struct image_choice *ret, struct err *err);

/* The curated names that the host itself can stand for, ends with NULL. Looked at once. */
const char *const *image_name_defaults(void);
