#include "image/oci.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "image/document.h"
#include "lib/test.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BLOB(media, hex)                                                                           \
	"\"mediaType\":\"application/vnd.oci.image." media                                         \
	"\",\"size\":3,\"digest\":\"sha256:" hex "\""
#define MANIFEST(hex)     BLOB("manifest.v1+json", hex)
#define PLATFORM(os, cpu) ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" cpu "\"}"
#define NAME(name)        ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"" name "\"}"

static json_t *parse(const char *text)
{
	json_t *json = NULL;

	CHECK_EQ(document_parse(text, strlen(text), "it", &json, NULL), 0);
	return json;
}

static int choose(
	const char *text, const char *ref, bool is_top, struct oci_blob *ret, struct err *err)
{
	const struct oci_wanted wanted = { .architecture = "amd64", .ref = ref };
	AUTO_JSON *index = parse(text);

	return oci_choose(index, &wanted, is_top, ret, NULL, err);
}

TEST(the_fitting_platform_is_chosen)
{
	struct oci_blob blob;

	CHECK_EQ(choose("{\"manifests\":[{" MANIFEST(HEX_A) PLATFORM("linux",
				"arm64") "},"
					 "{" MANIFEST(HEX_B) PLATFORM("linux", "amd64") "}]}",
			 NULL, true, &blob, NULL),
		0);
	CHECK_STR(blob.hex, HEX_B);
	CHECK_EQ(blob.kind, OCI_MANIFEST);
	CHECK_EQ(blob.size, 3);
}

TEST(without_a_fitting_platform_it_says_what_there_is)
{
	struct oci_blob blob = { .kind = OCI_UNKNOWN };
	struct err err = { 0 };

	CHECK_EQ(choose("{\"manifests\":[{" MANIFEST(HEX_A) PLATFORM("linux",
				"arm64") "},"
					 "{" MANIFEST(HEX_B) PLATFORM("unknown", "unknown") "}]}",
			 NULL, true, &blob, &err),
		-ENOENT);
	CHECK_STR(err.text, "it holds no image for linux/amd64, there are: 'linux/arm64'");
	CHECK_EQ(blob.kind, OCI_UNKNOWN);
}

TEST(several_images_are_a_question_at_the_top_only)
{
	static const char two[] = "{\"manifests\":[{" MANIFEST(HEX_A)
		NAME("a:1") "},"
			    "{" MANIFEST(HEX_B) NAME("b:1") "}]}";
	struct oci_blob blob;
	struct err err = { 0 };

	CHECK_EQ(choose(two, NULL, true, &blob, &err), -ENOTUNIQ);
	CHECK(strstr(err.text, "'a:1, b:1'") != NULL);
	CHECK_EQ(choose(two, "b:1", true, &blob, NULL), 0);
	CHECK_STR(blob.hex, HEX_B);
	CHECK_EQ(choose(two, "c:1", true, &blob, NULL), -ENOENT);
	CHECK_EQ(choose(two, NULL, false, &blob, NULL), 0);
	CHECK_STR(blob.hex, HEX_A);
}

TEST(an_image_with_two_names_is_one_image)
{
	const struct oci_wanted wanted = { .architecture = "amd64" };
	AUTO_JSON *names = json_array();
	AUTO_JSON *index = parse("{\"manifests\":[{" MANIFEST(HEX_A)
			NAME("a:1") "},"
				    "{" MANIFEST(HEX_A) NAME("b:1") "}]}");
	struct oci_blob blob;

	CHECK_EQ(oci_choose(index, &wanted, true, &blob, names, NULL), 0);
	CHECK_EQ(json_array_size(names), 2);
	CHECK_STR(json_string_value(json_array_get(names, 1)), "b:1");
}

TEST(bad_indexes_are_refused)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"{\"manifests\":{}}",
		"{\"manifests\":[]}",
		"{\"manifests\":[null]}",
		"{\"manifests\":[{" BLOB("layer.v1.tar", HEX_A) "}]}",
		"{\"manifests\":[{\"digest\":\"sha256:" HEX_A "\"}]}",
		"{\"manifests\":[{\"size\":-1,\"digest\":\"sha256:" HEX_A "\"}]}",
		"{\"manifests\":[{\"size\":1,\"digest\":\"sha256:../x\"}]}",
		"{\"manifests\":[{\"size\":1,\"digest\":\"sha512:" HEX_A "\"}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct oci_blob blob;
		struct err err = { 0 };

		CHECK(choose(bad[i], NULL, true, &blob, &err) < 0);
		CHECK(err.text[0] != '\0');
	}
}

static int parse_manifest(const char *text, struct oci_manifest *ret)
{
	AUTO_JSON *json = parse(text);

	return oci_parse_manifest(json, ret, NULL);
}

TEST(manifests_are_parsed)
{
	AUTO_FREE struct oci_manifest *m = calloc(1, sizeof(*m));

	CHECK_EQ(
		parse_manifest("{\"config\":{" BLOB("config.v1+json", HEX_A) "},\"layers\":[{" BLOB(
				       "layer.v1.tar+gzip", HEX_B) "}]}",
			m),
		0);
	CHECK_STR(m->config.hex, HEX_A);
	CHECK_EQ(m->n_layers, 1);
	CHECK_STR(m->layers[0].hex, HEX_B);
}

TEST(what_is_not_an_image_is_refused)
{
	AUTO_FREE struct oci_manifest *m = calloc(1, sizeof(*m));

	CHECK(parse_manifest("{}", m) < 0);
	CHECK(parse_manifest("{\"config\":{" BLOB("config.v1+json", HEX_A) "}}", m) < 0);
	CHECK(parse_manifest("{\"config\":{" BLOB("x", HEX_A) "},\"layers\":[]}", m) == -ENOTSUP);
	CHECK(parse_manifest("{\"config\":{" BLOB("config.v1+json", HEX_A) "},\"layers\":[{" BLOB(
				     "x", HEX_B) "}]}",
		      m) == -ENOTSUP);
}

TEST(layers_are_limited)
{
	AUTO_FREE struct oci_manifest *m = calloc(1, sizeof(*m));
	AUTO_JSON *json = parse("{\"config\":{" BLOB("config.v1+json", HEX_A) "},\"layers\":[]}");
	AUTO_JSON *layer = parse("{" BLOB("layer.v1.tar", HEX_B) "}");

	for (size_t i = 0; i < OCI_LAYERS_MAX; i++)
		(void)json_array_append(json_object_get(json, "layers"), layer);
	CHECK_EQ(oci_parse_manifest(json, m, NULL), 0);
	(void)json_array_append(json_object_get(json, "layers"), layer);
	CHECK_EQ(oci_parse_manifest(json, m, NULL), -EFBIG);
}

TESTS(UNIT(the_fitting_platform_is_chosen), UNIT(without_a_fitting_platform_it_says_what_there_is),
	UNIT(several_images_are_a_question_at_the_top_only),
	UNIT(an_image_with_two_names_is_one_image), UNIT(bad_indexes_are_refused),
	UNIT(manifests_are_parsed), UNIT(what_is_not_an_image_is_refused), UNIT(layers_are_limited))
