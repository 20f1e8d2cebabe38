#include "image/config.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "image/document.h"
#include "lib/test.h"

#define HEX        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ROOTFS     "\"rootfs\":{\"diff_ids\":[\"sha256:" HEX "\"]}"
#define WITH(more) "{\"architecture\":\"amd64\",\"os\":\"linux\"," ROOTFS more "}"

static int parse(const char *text, struct config *c, struct err *err)
{
	AUTO_JSON *json = NULL;

	CHECK_EQ(document_parse(text, strlen(text), "it", &json, NULL), 0);
	return config_parse(json, c, err);
}

TEST(what_the_image_says_is_kept)
{
	struct config c;

	CHECK_EQ(parse(WITH(",\"config\":{\"Env\":[\"A=b\"],\"Cmd\":[\"sh\"],\"WorkingDir\":\"/w\","
			    "\"Labels\":{\"x\":\"y\"}}"),
			 &c, NULL),
		0);
	CHECK_STR(c.architecture, "amd64");
	CHECK_EQ(c.n_diff_ids, 1);
	CHECK_STR(c.diff_ids[0], HEX);
	CHECK_STR(json_string_value(json_array_get(json_object_get(c.run, "Env"), 0)), "A=b");
	CHECK_STR(json_string_value(json_object_get(c.run, "WorkingDir")), "/w");
	CHECK_EQ(json_array_size(json_object_get(c.run, "Entrypoint")), 0);
	CHECK(json_object_get(c.run, "Labels") == NULL);
	config_fini(&c);
}

TEST(an_image_may_say_nothing)
{
	static const char *const little[] = { WITH(""), WITH(",\"config\":null"),
		WITH(",\"config\":{\"Env\":null,\"Cmd\":null}") };

	for (size_t i = 0; i < ARRAY_SIZE(little); i++) {
		struct config c;

		CHECK_EQ(parse(little[i], &c, NULL), 0);
		CHECK(json_is_array(json_object_get(c.run, "Cmd")));
		config_fini(&c);
	}
}

TEST(bad_configurations_are_refused)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"architecture\":\"amd64\"}",
		"{\"architecture\":\"\"," ROOTFS "}",
		"{\"architecture\":\"../x\"," ROOTFS "}",
		"{\"architecture\":\"amd64\",\"os\":\"windows\"," ROOTFS "}",
		"{\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[\"x\"]}}",
		"{\"architecture\":\"amd64\",\"rootfs\":{\"diff_ids\":[null]}}",
		WITH(",\"config\":{\"Env\":[\"novalue\"]}"),
		WITH(",\"config\":{\"Env\":[\"=x\"]}"),
		WITH(",\"config\":{\"Env\":\"A=b\"}"),
		WITH(",\"config\":{\"Cmd\":[1]}"),
		WITH(",\"config\":{\"User\":7}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct config c;
		struct err err = { 0 };

		CHECK(parse(bad[i], &c, &err) < 0);
		CHECK(err.text[0] != '\0');
	}
}

TEST(this_machine_has_a_name)
{
	CHECK(strlen(config_architecture()) > 0);
}

TESTS(UNIT(what_the_image_says_is_kept), UNIT(an_image_may_say_nothing),
	UNIT(bad_configurations_are_refused), UNIT(this_machine_has_a_name))
