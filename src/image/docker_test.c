#include "image/docker.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "image/document.h"
#include "lib/test.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define IMAGE(config, tags)                                                                        \
	"{\"Config\":\"" config "\",\"RepoTags\":" tags ",\"Layers\":[\"x/layer.tar\"]}"

static json_t *parse(const char *text)
{
	json_t *json = NULL;

	CHECK_EQ(document_parse(text, strlen(text), "it", &json, NULL), 0);
	return json;
}

TEST(a_configuration_is_named_after_its_digest)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "[" IMAGE(HEX_A ".json", "[]") "]", 0 },
		{ "[" IMAGE("blobs/sha256/" HEX_A, "null") "]", 0 },
		{ "[" IMAGE("sha256:" HEX_A, "[\"a:1\"]") "]", 0 },
		{ "[" IMAGE("config.json", "[]") "]", -EBADMSG },
		{ "[" IMAGE(HEX_A ".txt", "[]") "]", -EBADMSG },
		{ "[" IMAGE("", "[]") "]", -EBADMSG },
		{ "[" IMAGE(HEX_A, "[7]") "]", -EBADMSG },
		{ "[" IMAGE(HEX_A, "\"a\"") "]", -EBADMSG },
		{ "[{\"Config\":\"" HEX_A "\",\"Layers\":[1]}]", -EBADMSG },
		{ "[{\"Config\":\"" HEX_A "\"}]", -EBADMSG },
		{ "[{}]", -EBADMSG },
		{ "[]", -ENOENT },
		{ "{}", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_JSON *json = parse(cases[i].text);
		struct docker_image image;

		CHECK_EQ(docker_choose(json, NULL, &image, NULL), cases[i].code);
		if (cases[i].code == 0)
			CHECK_STR(image.hex, HEX_A);
	}
}

TEST(one_of_several_is_chosen_by_name)
{
	AUTO_JSON *json =
		parse("[" IMAGE(HEX_A, "[\"a:1\",\"a:2\"]") "," IMAGE(HEX_B, "[\"b:1\"]") "]");
	struct docker_image image;
	struct err err = { 0 };

	CHECK_EQ(docker_choose(json, NULL, &image, &err), -ENOTUNIQ);
	CHECK(strstr(err.text, "a:1, a:2, b:1") != NULL);
	CHECK_EQ(docker_choose(json, "b:1", &image, NULL), 0);
	CHECK_STR(image.hex, HEX_B);
	CHECK_EQ(docker_choose(json, "a:2", &image, NULL), 0);
	CHECK_STR(image.hex, HEX_A);
	CHECK_EQ(docker_choose(json, "c", &image, NULL), -ENOENT);
}

TEST(names_are_found_by_digest)
{
	AUTO_JSON *json = parse("[{}," IMAGE(HEX_B, "[\"b:1\"]") "]");

	CHECK_EQ(json_array_size(docker_find_names(json, HEX_B)), 1);
	CHECK(docker_find_names(json, HEX_A) == NULL);
}

TESTS(UNIT(a_configuration_is_named_after_its_digest), UNIT(one_of_several_is_chosen_by_name),
	UNIT(names_are_found_by_digest))
