/* The documents of an OCI image layout: index and manifest. They are only read
 * here; files are opened and digests compared by plan.c. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"

struct err;

#define OCI_LAYERS_MAX    256u
#define OCI_MANIFESTS_MAX 1024u /* in one index */

enum oci_kind {
	OCI_UNKNOWN,
	OCI_INDEX,
	OCI_MANIFEST,
	OCI_CONFIG,
	OCI_LAYER,
};

/* A descriptor: which file, how large, what is in it. */
struct oci_blob {
	enum oci_kind kind;
	char hex[DIGEST_HEX_SIZE + 1];
	uint64_t size;
};

/* What is looked for in an index. */
struct oci_wanted {
	const char *architecture; /* "amd64"; the system is always linux */
	const char *ref;          /* a name in the index, or NULL when there is only one image */
};

/* Choose the image (or the nested index that has it). The names that the index
 * gives to it are appended to the array `names` (which may be NULL). `is_top` says
 * that several images are a question to the user; inside a nested index they are
 * variants of one, and the first wins. -ENOENT tells what there is instead. */
int oci_choose(const json_t *index, const struct oci_wanted *wanted, bool is_top,
	struct oci_blob *ret, json_t *names, struct err *err);

struct oci_manifest {
	struct oci_blob config;
	struct oci_blob layers[OCI_LAYERS_MAX];
	size_t n_layers;
};

int oci_parse_manifest(const json_t *json, struct oci_manifest *ret, struct err *err);
