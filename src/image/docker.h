/* The manifest.json of a `docker save` archive. Old archives have nothing else;
 * newer ones are OCI layouts too, and it only tells their names. */
#pragma once
#include <jansson.h>

#include "base/digest.h"

struct err;

#define DOCKER_IMAGES_MAX 256u

struct docker_image {
	const char *config_path;       /* borrowed from the document, as the rest */
	char hex[DIGEST_HEX_SIZE + 1]; /* the digest that the path promises */
	const json_t *layers;          /* array of paths, of strings only */
	const json_t *names;           /* array of strings only, or NULL */
};

/* Choose the image called `ref`, or the only one when it is NULL. -ENOENT and
 * -ENOTUNIQ tell which there are. */
int docker_choose(
	const json_t *document, const char *ref, struct docker_image *ret, struct err *err);

/* The names of the image with the configuration `hex`, or NULL; borrowed. */
const json_t *docker_find_names(const json_t *document, const char *hex);
