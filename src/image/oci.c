#include "image/oci.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"

/* What a media type says, by how it begins: versions and compression follow. The
 * compression is looked up in the file itself, since many get its label wrong. */
static const struct {
	const char *prefix;
	enum oci_kind kind;
} media[] = {
	{ "application/vnd.oci.image.index.v1", OCI_INDEX },
	{ "application/vnd.docker.distribution.manifest.list.v2", OCI_INDEX },
	{ "application/vnd.oci.image.manifest.v1", OCI_MANIFEST },
	{ "application/vnd.docker.distribution.manifest.v2", OCI_MANIFEST },
	{ "application/vnd.oci.image.config.v1", OCI_CONFIG },
	{ "application/vnd.docker.container.image.v1", OCI_CONFIG },
	{ "application/vnd.oci.image.layer.", OCI_LAYER },
	{ "application/vnd.docker.image.rootfs.", OCI_LAYER },
};

/* Annotations that name an image, the more precise first. */
static const char *const name_keys[] = {
	"io.containerd.image.name",
	"org.opencontainers.image.ref.name",
};

static enum oci_kind parse_media(const char *type)
{
	for (size_t i = 0; type && i < ARRAY_SIZE(media); i++) {
		if (str_after(type, media[i].prefix))
			return media[i].kind;
	}
	return OCI_UNKNOWN;
}

static int parse_blob(const json_t *json, const char *what, struct oci_blob *ret, struct err *err)
{
	const char *digest = json_string_value(json_object_get(json, "digest"));
	const json_t *size = json_object_get(json, "size");
	struct oci_blob blob;

	if (!digest)
		return err_set(err, -EBADMSG, "%s has no digest", what);
	int r = digest_parse(digest, what, blob.hex, err);
	if (r < 0)
		return r;
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(err, -EBADMSG, "%s has no size", what);
	blob.size = (uint64_t)json_integer_value(size);
	blob.kind = parse_media(json_string_value(json_object_get(json, "mediaType")));
	*ret = blob;
	return 0;
}

/* "linux/arm64" as the entry says it, "" when it does not. */
static void format_platform(const json_t *entry, char *buf, size_t size)
{
	const json_t *platform = json_object_get(entry, "platform");
	const char *os = json_string_value(json_object_get(platform, "os"));
	const char *arch = json_string_value(json_object_get(platform, "architecture"));

	buf[0] = '\0';
	if (os && arch)
		(void)snprintf(buf, size, "%s/%s", os, arch);
}

static const char *entry_name(const json_t *entry, size_t key)
{
	const json_t *notes = json_object_get(entry, "annotations");

	return json_string_value(json_object_get(notes, name_keys[key]));
}

static bool has_name(const json_t *entry, const char *ref)
{
	for (size_t i = 0; i < ARRAY_SIZE(name_keys); i++) {
		const char *name = entry_name(entry, i);

		if (name && streq(name, ref))
			return true;
	}
	return false;
}

static const char *best_name(const json_t *entry)
{
	for (size_t i = 0; i < ARRAY_SIZE(name_keys); i++) {
		if (entry_name(entry, i))
			return entry_name(entry, i);
	}
	return NULL;
}

/* What the index holds besides, for the message when nothing fits. */
struct listing {
	char text[256];
};

static void list_word(struct listing *list, const char *word)
{
	size_t used = strlen(list->text);

	if (!strstr(list->text, word))
		(void)snprintf(list->text + used, sizeof(list->text) - used, "%s%s",
			used ? ", " : "", word);
}

struct choice {
	const struct oci_wanted *wanted;
	bool is_top;
	struct oci_blob blob; /* chosen so far; kind OCI_UNKNOWN for none */
	bool is_unclear;
	struct listing platforms;
	struct listing names;
};

static bool fits_platform(struct choice *c, const json_t *entry)
{
	char is[128];
	char should[64];

	format_platform(entry, is, sizeof(is));
	(void)snprintf(should, sizeof(should), "linux/%s", c->wanted->architecture);
	if (!*is || streq(is, should))
		return true;
	if (!streq(is, "unknown/unknown")) /* an attestation, not an image */
		list_word(&c->platforms, is);
	return false;
}

static int consider(struct choice *c, const json_t *entry, struct err *err)
{
	struct oci_blob blob = { 0 };
	const char *name = best_name(entry);

	int r = parse_blob(entry, "an entry of the index", &blob, err);
	if (r < 0)
		return r;
	if ((blob.kind != OCI_INDEX && blob.kind != OCI_MANIFEST) || !fits_platform(c, entry))
		return 0;
	if (name)
		list_word(&c->names, name);
	if (c->is_top && c->wanted->ref && !has_name(entry, c->wanted->ref))
		return 0;
	if (c->blob.kind == OCI_UNKNOWN)
		c->blob = blob;
	else if (c->is_top && !streq(c->blob.hex, blob.hex))
		c->is_unclear = true;
	return 0;
}

static int refuse_choice(const struct choice *c, struct err *err)
{
	if (c->is_unclear)
		return err_set(err, -ENOTUNIQ, "it holds several images, choose with --ref: %s",
			quote(c->names.text).text);
	if (c->is_top && c->wanted->ref && *c->names.text)
		return err_set(err, -ENOENT, "it holds no image %s, there are: %s",
			quote(c->wanted->ref).text, quote(c->names.text).text);
	if (*c->platforms.text)
		return err_set(err, -ENOENT, "it holds no image for linux/%s, there are: %s",
			c->wanted->architecture, quote(c->platforms.text).text);
	return err_set(err, -ENOENT, "its index names no image");
}

static void collect_names(const json_t *entries, const char *hex, json_t *names)
{
	size_t i;
	const json_t *entry;

	json_array_foreach(entries, i, entry)
	{
		const char *digest = json_string_value(json_object_get(entry, "digest"));
		const char *name = best_name(entry);

		if (name && digest && streq(digest + strlen("sha256:"), hex))
			(void)json_array_append_new(names, json_string(name));
	}
}

int oci_choose(const json_t *index, const struct oci_wanted *wanted, bool is_top,
	struct oci_blob *ret, json_t *names, struct err *err)
{
	const json_t *entries = json_object_get(index, "manifests");
	struct choice c = { .wanted = wanted, .is_top = is_top };
	size_t i;
	const json_t *entry;

	if (!json_is_array(entries))
		return err_set(err, -EBADMSG, "the index has no list of manifests");
	if (json_array_size(entries) > OCI_MANIFESTS_MAX)
		return err_set(
			err, -EFBIG, "the index has more than %u manifests", OCI_MANIFESTS_MAX);
	json_array_foreach(entries, i, entry)
	{
		int r = consider(&c, entry, err);
		if (r < 0)
			return r;
	}
	if (c.blob.kind == OCI_UNKNOWN || c.is_unclear)
		return refuse_choice(&c, err);
	if (names)
		collect_names(entries, c.blob.hex, names);
	*ret = c.blob;
	return 0;
}

static int parse_layers(const json_t *layers, struct oci_manifest *m, struct err *err)
{
	size_t i;
	const json_t *layer;
	char what[32];

	if (!json_is_array(layers))
		return err_set(err, -EBADMSG, "the manifest has no list of layers");
	if (json_array_size(layers) > OCI_LAYERS_MAX)
		return err_set(err, -EFBIG, "the image has more than %u layers", OCI_LAYERS_MAX);
	json_array_foreach(layers, i, layer)
	{
		(void)snprintf(what, sizeof(what), "layer %zu", i + 1);
		int r = parse_blob(layer, what, &m->layers[i], err);
		if (r < 0)
			return r;
		if (m->layers[i].kind != OCI_LAYER)
			return err_set(err, -ENOTSUP, "%s is not a file system layer", what);
	}
	m->n_layers = json_array_size(layers);
	return 0;
}

int oci_parse_manifest(const json_t *json, struct oci_manifest *ret, struct err *err)
{
	int r = parse_blob(json_object_get(json, "config"), "the configuration", &ret->config, err);
	if (r < 0)
		return r;
	if (ret->config.kind != OCI_CONFIG)
		return err_set(
			err, -ENOTSUP, "the manifest describes something else than an image");
	return parse_layers(json_object_get(json, "layers"), ret, err);
}
