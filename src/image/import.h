/* Changing the set of images: bringing one in, naming it, removing it. An image
 * appears by one rename, complete or not at all; what a killed import left is
 * removed by the next. Run by whoever owns the state directory. */
#pragma once
#include <stdint.h>

#include "image/image.h"

struct err;

struct import_options {
	const char *root;   /* the state directory */
	const char *source; /* a directory, an archive, or "-" */
	const char *name;   /* instead of the names it brings; may be NULL */
	const char *ref;    /* which of several images; may be NULL */
	uint64_t bytes_max; /* of all layers together, uncompressed */
};

/* Import one image. Returns 0 with its record, which the caller must json_decref().
 * -EINVAL, -EBADMSG, -EFBIG, -EPERM and others say in a sentence what is wrong with
 * the image; nothing of it is left then. */
int import_image(const struct import_options *options, json_t **ret, struct err *err);

/* Take the name `name` from its image, and remove the image when it was the last
 * one or `name` is a digest. Returns 1 when the image is gone, 0 when it stays under
 * other names; -EBUSY while a box runs on it, -EINVAL for host. */
int import_remove(const char *root, const char *name, struct err *err);
