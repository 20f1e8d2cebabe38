#include "image/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/quote.h"
#include "base/str.h"
#include "image/docker.h"
#include "image/document.h"
#include "image/tree.h"

#define BLOBS "blobs/sha256/"

/* An index may point to an index, but not for ever. */
#define NESTED_MAX 4

static void blob_path(const char *hex, char *buf, size_t size)
{
	(void)snprintf(buf, size, BLOBS "%s", hex);
}

static int check_size(int fd, uint64_t size, const char *what, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "stat %s", what);
	if ((uint64_t)st.st_size != size)
		return err_set(err, -EBADMSG,
			"%s is damaged: it has %" PRIu64 " bytes, not %" PRIu64, what,
			(uint64_t)st.st_size, size);
	return 0;
}

/* Read the document at `path`, which must have the digest `hex`. */
static int read_checked(int source_fd, const char *path, const char *hex, const char *what,
	json_t **ret, struct err *err)
{
	AUTO_FD fd = -1;
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	char is[DIGEST_HEX_SIZE + 1];

	int r = tree_open_file(source_fd, path, &fd, err);
	if (r < 0)
		return err_wrap(err, r, what);
	r = fd_read_all(fd, DOCUMENT_SIZE_MAX, &text, &size);
	if (r == -EFBIG)
		return err_set(err, r, "%s is larger than %u bytes", what, DOCUMENT_SIZE_MAX);
	if (r < 0)
		return err_set(err, r, "read %s: %s", what, strerror(-r));
	digest_of(text, size, is);
	if (!streq(is, hex))
		return err_set(err, -EBADMSG,
			"%s is damaged: its digest is sha256:%.12s..., not %.12s...", what, is,
			hex);
	return document_parse(text, size, what, ret, err);
}

static int read_blob(
	int source_fd, const struct oci_blob *blob, const char *what, json_t **ret, struct err *err)
{
	AUTO_FD fd = -1;
	char path[DIGEST_HEX_SIZE + 32];

	blob_path(blob->hex, path, sizeof(path));
	int r = tree_open_file(source_fd, path, &fd, err);
	if (r == 0)
		r = check_size(fd, blob->size, what, err);
	return r < 0 ? r : read_checked(source_fd, path, blob->hex, what, ret, err);
}

/* A document at the top of the source, which nothing vouches for. */
static int read_top(int source_fd, const char *path, json_t **ret, struct err *err)
{
	AUTO_FD fd = -1;

	int r = tree_open_file(source_fd, path, &fd, err);
	return r < 0 ? r : document_read(fd, path, ret, err);
}

static int read_config(struct plan *p, const json_t *json, struct err *err)
{
	const char *here = config_architecture();

	int r = config_parse(json, &p->config, err);
	if (r < 0)
		return r;
	if (!streq(p->config.architecture, here))
		return err_set(err, -ENOTSUP, "the image is for linux/%s, this machine is linux/%s",
			p->config.architecture, here);
	return 0;
}

/* Take over the diff_ids, now that the number of layers is known too. */
static int match_layers(struct plan *p, size_t n_layers, struct err *err)
{
	if (p->config.n_diff_ids != n_layers)
		return err_set(err, -EBADMSG, "it has %zu layers but %zu diff_ids", n_layers,
			p->config.n_diff_ids);
	for (size_t i = 0; i < n_layers; i++)
		memcpy(p->layers[i].digests.plain, p->config.diff_ids[i], DIGEST_HEX_SIZE + 1);
	p->n_layers = n_layers;
	return 0;
}

/* Every layer must be there before the first is unpacked. */
static int check_layer(
	int source_fd, const struct plan_layer *layer, const uint64_t *size, struct err *err)
{
	AUTO_FD fd = -1;

	int r = tree_open_file(source_fd, layer->path, &fd, err);
	if (r < 0)
		return err_wrap(err, r, "a layer");
	return size ? check_size(fd, *size, "a layer", err) : 0;
}

static int plan_oci_layers(
	struct plan *p, int source_fd, const struct oci_manifest *m, struct err *err)
{
	char path[DIGEST_HEX_SIZE + 32];

	int r = match_layers(p, m->n_layers, err);
	for (size_t i = 0; r == 0 && i < m->n_layers; i++) {
		blob_path(m->layers[i].hex, path, sizeof(path));
		p->layers[i].path = xstrdup(path);
		memcpy(p->layers[i].digests.blob, m->layers[i].hex, DIGEST_HEX_SIZE + 1);
		r = check_layer(source_fd, &p->layers[i], &m->layers[i].size, err);
	}
	return r;
}

static int plan_manifest(struct plan *p, int source_fd, const json_t *json, struct err *err)
{
	AUTO_FREE struct oci_manifest *m = xnew(struct oci_manifest);
	AUTO_JSON *config = NULL;

	int r = oci_parse_manifest(json, m, err);
	if (r == 0)
		r = read_blob(source_fd, &m->config, "the configuration", &config, err);
	if (r == 0)
		r = read_config(p, config, err);
	if (r == 0)
		r = plan_oci_layers(p, source_fd, m, err);
	if (r == 0)
		memcpy(p->hex, m->config.hex, sizeof(p->hex));
	return r;
}

/* Follow the index down to the manifest for this machine. */
static int find_manifest(struct plan *p, int source_fd, const char *ref, json_t *index,
	json_t **ret, struct err *err)
{
	const struct oci_wanted wanted = { .architecture = config_architecture(), .ref = ref };
	AUTO_JSON *at = json_incref(index);
	struct oci_blob blob = { .kind = OCI_INDEX };

	for (int depth = 0; blob.kind != OCI_MANIFEST; depth++) {
		json_t *next = NULL;

		if (depth == NESTED_MAX)
			return err_set(
				err, -ELOOP, "its indexes nest deeper than %d levels", NESTED_MAX);
		int r = oci_choose(at, &wanted, depth == 0, &blob, depth ? NULL : p->names, err);
		if (r == 0)
			r = read_blob(source_fd, &blob, "the manifest", &next, err);
		if (r < 0)
			return r;
		json_decref(at);
		at = next;
	}
	memcpy(p->manifest_hex, blob.hex, sizeof(p->manifest_hex));
	*ret = TAKE(at);
	return 0;
}

/* Newer docker archives are OCI layouts; only manifest.json has their names as
 * people write them. */
static void prefer_docker_names(struct plan *p, int source_fd)
{
	AUTO_JSON *document = NULL;

	if (read_top(source_fd, "manifest.json", &document, NULL) < 0)
		return;
	const json_t *names = docker_find_names(document, p->hex);
	if (json_array_size(names) == 0)
		return;
	json_decref(p->names);
	p->names = json_deep_copy(names);
}

static int plan_oci(struct plan *p, int source_fd, const char *ref, json_t *index, struct err *err)
{
	AUTO_JSON *manifest = NULL;

	int r = find_manifest(p, source_fd, ref, index, &manifest, err);
	if (r == 0)
		r = plan_manifest(p, source_fd, manifest, err);
	if (r < 0)
		return r;
	p->format = "oci";
	prefer_docker_names(p, source_fd);
	return 0;
}

static int plan_docker_layers(struct plan *p, int source_fd, const json_t *paths, struct err *err)
{
	size_t i;
	const json_t *item;
	char path[TREE_PATH_MAX];

	int r = match_layers(p, json_array_size(paths), err);
	if (r < 0)
		return r;
	json_array_foreach(paths, i, item)
	{
		r = tree_clean_path(json_string_value(item), path, err);
		if (r < 0)
			return err_wrap(err, r, "the path of a layer");
		p->layers[i].path = xstrdup(path);
		const char *hex = str_after(path, BLOBS);
		if (hex && str_is_hex(hex, DIGEST_HEX_SIZE))
			memcpy(p->layers[i].digests.blob, hex, DIGEST_HEX_SIZE + 1);
		r = check_layer(source_fd, &p->layers[i], NULL, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int plan_docker(
	struct plan *p, int source_fd, const char *ref, const json_t *document, struct err *err)
{
	struct docker_image image;
	AUTO_JSON *config = NULL;
	char path[TREE_PATH_MAX];

	int r = docker_choose(document, ref, &image, err);
	if (r == 0)
		r = tree_clean_path(image.config_path, path, err);
	if (r == 0)
		r = read_checked(source_fd, path, image.hex, "the configuration", &config, err);
	if (r == 0)
		r = read_config(p, config, err);
	if (r == 0)
		r = plan_docker_layers(p, source_fd, image.layers, err);
	if (r < 0)
		return r;
	memcpy(p->hex, image.hex, sizeof(p->hex));
	p->format = "docker";
	if (image.names) {
		json_decref(p->names);
		p->names = json_deep_copy(image.names);
	}
	return 0;
}

int plan_make(int source_fd, const char *ref, struct plan **ret, struct err *err)
{
	CLEANUP(plan_freep) struct plan *p = xnew(struct plan);
	AUTO_JSON *document = NULL;

	p->names = json_array();
	int r = read_top(source_fd, "index.json", &document, err);
	if (r == 0) {
		r = plan_oci(p, source_fd, ref, document, err);
	} else if (r == -ENOENT) {
		r = read_top(source_fd, "manifest.json", &document, err);
		if (r == -ENOENT)
			return err_set(err, -EINVAL,
				"it is neither an OCI layout nor a docker archive: "
				"it has no index.json and no manifest.json");
		if (r == 0)
			r = plan_docker(p, source_fd, ref, document, err);
	}
	if (r < 0)
		return r;
	*ret = TAKE(p);
	return 0;
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < OCI_LAYERS_MAX; i++)
		free(p->layers[i].path);
	json_decref(p->names);
	config_fini(&p->config);
	free(p);
}
