/* Any bytes as each of the documents of an image, and as a name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/config.h"
#include "image/docker.h"
#include "image/document.h"
#include "image/image.h"
#include "image/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_name(const uint8_t *data, size_t size)
{
	char text[512];
	char name[IMAGE_NAME_MAX + 1];
	char again[IMAGE_NAME_MAX + 1];

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	/* What has the one form keeps it. */
	if (image_parse_name(text, name, NULL) == 0 &&
		(image_parse_name(name, again, NULL) < 0 || strcmp(name, again) != 0))
		abort();
}

static void try_index(const json_t *json)
{
	static const struct oci_wanted wanted[] = {
		{ .architecture = "amd64" },
		{ .architecture = "arm64", .ref = "a:1" },
	};

	for (size_t i = 0; i < 4; i++) {
		struct oci_blob blob;
		json_t *names = json_array();

		if (oci_choose(json, &wanted[i % 2], i < 2, &blob, names, NULL) == 0 &&
			strlen(blob.hex) != DIGEST_HEX_SIZE)
			abort();
		json_decref(names);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct oci_manifest manifest;
	static struct config config;
	struct docker_image image;
	json_t *json = NULL;

	try_name(data, size);
	if (document_parse((const char *)data, size, "it", &json, NULL) < 0)
		return 0;
	try_index(json);
	(void)oci_parse_manifest(json, &manifest, NULL);
	(void)docker_choose(json, NULL, &image, NULL);
	(void)docker_choose(json, "a:1", &image, NULL);
	(void)docker_find_names(json, manifest.config.hex);
	if (config_parse(json, &config, NULL) == 0)
		config_fini(&config);
	json_decref(json);
	return 0;
}
