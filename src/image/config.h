/* The configuration of an image: which layers it is made of, and how it wants to
 * be run. Its digest is the identity of the image. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/digest.h"
#include "image/oci.h"

struct err;

#define CONFIG_STRINGS_MAX 4096u /* variables, and again arguments */

struct config {
	char diff_ids[OCI_LAYERS_MAX][DIGEST_HEX_SIZE + 1];
	size_t n_diff_ids;
	char architecture[32];
	/* Env, Entrypoint, Cmd (lists of strings), WorkingDir, User: each always
	 * there, empty when the image says nothing. */
	json_t *run;
};

/* Read a configuration; config_fini() it after success. -ENOTSUP for one that is
 * not for linux. */
int config_parse(const json_t *json, struct config *ret, struct err *err);
void config_fini(struct config *c);

/* What images call this machine: "amd64". */
const char *config_architecture(void);
