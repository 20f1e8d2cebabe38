#include "image/docker.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"
#include "image/oci.h"

/* "blobs/sha256/<hex>", "<hex>.json" or "sha256:<hex>": the ways in which programs
 * name a configuration after its digest. */
static int parse_config_path(const char *path, char hex[DIGEST_HEX_SIZE + 1])
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *rest = str_after(name, "sha256:");

	if (rest)
		name = rest;
	size_t n = strcspn(name, ".");
	if (n != DIGEST_HEX_SIZE || (name[n] && !streq(name + n, ".json")))
		return -EINVAL;
	(void)snprintf(hex, DIGEST_HEX_SIZE + 1, "%.*s", DIGEST_HEX_SIZE, name);
	return str_is_hex(hex, DIGEST_HEX_SIZE) ? 0 : -EINVAL;
}

static bool is_strings(const json_t *array)
{
	size_t i;
	const json_t *item;

	if (!json_is_array(array))
		return false;
	json_array_foreach(array, i, item)
	{
		if (!json_is_string(item))
			return false;
	}
	return true;
}

static int parse_image(const json_t *json, struct docker_image *ret, struct err *err)
{
	struct docker_image image = {
		.config_path = json_string_value(json_object_get(json, "Config")),
		.layers = json_object_get(json, "Layers"),
		.names = json_object_get(json, "RepoTags"),
	};

	if (!image.config_path)
		return err_set(err, -EBADMSG, "manifest.json names no Config");
	if (parse_config_path(image.config_path, image.hex) < 0)
		return err_set(err, -EBADMSG, "Config %s is not named after its digest",
			quote(image.config_path).text);
	if (!is_strings(image.layers) || json_array_size(image.layers) > OCI_LAYERS_MAX)
		return err_set(err, -EBADMSG, "manifest.json has no list of at most %u Layers",
			OCI_LAYERS_MAX);
	if (image.names && !json_is_null(image.names) && !is_strings(image.names))
		return err_set(err, -EBADMSG, "RepoTags is not a list of names");
	if (!json_is_array(image.names))
		image.names = NULL;
	*ret = image;
	return 0;
}

static bool has_name(const struct docker_image *image, const char *ref)
{
	size_t i;
	const json_t *name;

	json_array_foreach(image->names, i, name)
	{
		if (streq(json_string_value(name), ref))
			return true;
	}
	return false;
}

static void list_names(const struct docker_image *image, char *buf, size_t size)
{
	size_t i;
	const json_t *name;

	json_array_foreach(image->names, i, name)
	{
		size_t used = strlen(buf);
		(void)snprintf(
			buf + used, size - used, "%s%s", used ? ", " : "", json_string_value(name));
	}
}

static int refuse_choice(size_t n, const char *ref, const char *names, struct err *err)
{
	if (n > 1)
		return err_set(err, -ENOTUNIQ, "it holds several images, choose with --ref: %s",
			quote(names).text);
	if (ref)
		return err_set(err, -ENOENT, "it holds no image %s, there are: %s", quote(ref).text,
			quote(names).text);
	return err_set(err, -ENOENT, "its manifest.json names no image");
}

int docker_choose(
	const json_t *document, const char *ref, struct docker_image *ret, struct err *err)
{
	char names[256] = "";
	size_t n_found = 0;
	struct docker_image found = { 0 };
	size_t i;
	const json_t *json;

	if (!json_is_array(document) || json_array_size(document) > DOCKER_IMAGES_MAX)
		return err_set(err, -EBADMSG, "manifest.json is not a list of at most %u images",
			DOCKER_IMAGES_MAX);
	json_array_foreach(document, i, json)
	{
		struct docker_image image = { 0 };

		int r = parse_image(json, &image, err);
		if (r < 0)
			return r;
		list_names(&image, names, sizeof(names));
		if ((ref && !has_name(&image, ref)) || (n_found && streq(found.hex, image.hex)))
			continue;
		found = image;
		n_found++;
	}
	if (n_found != 1)
		return refuse_choice(n_found, ref, names, err);
	*ret = found;
	return 0;
}

const json_t *docker_find_names(const json_t *document, const char *hex)
{
	size_t i;
	const json_t *json;

	json_array_foreach(document, i, json)
	{
		struct docker_image image = { 0 };

		if (parse_image(json, &image, NULL) == 0 && streq(image.hex, hex))
			return image.names;
	}
	return NULL;
}
