/* From a directory with an image in it to the list of what has to be unpacked: the
 * layout's documents are read, their digests compared and their claims checked
 * against each other, before a single layer is touched. */
#pragma once
#include <jansson.h>

#include "base/cleanup.h"
#include "image/config.h"
#include "image/layer.h"

struct err;

struct plan_layer {
	char *path; /* in the source */
	struct layer_digests digests;
};

struct plan {
	char hex[DIGEST_HEX_SIZE + 1];          /* the configuration's digest: the image's name */
	char manifest_hex[DIGEST_HEX_SIZE + 1]; /* "" for an old docker archive */
	const char *format;                     /* "oci" or "docker" */
	struct config config;
	json_t *names; /* array of strings as the source has them, unchecked */
	struct plan_layer layers[OCI_LAYERS_MAX];
	size_t n_layers;
};

/* Read the source at `source_fd`. `ref` chooses among several images, or is NULL. */
int plan_make(int source_fd, const char *ref, struct plan **ret, struct err *err);
void plan_free(struct plan *p);

DEFINE_CLEANUP(struct plan, plan_free)
