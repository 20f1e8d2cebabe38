#include "core/unknown.h"

#include <string.h>

#include "base/json.h"
#include "core/problem.h"
#include "lib/test.h"

static const char *const names[] = { "command", "env", "timeout_sec", "base_image", "resources",
	"resources.cpu", "resources.memory_mb", NULL };
static const char *const ignored[] = { "resources.pids", NULL };
static const struct unknown_hint hints[] = { { "cmd", "command" }, { 0 } };

static struct unknown_check check_of(json_t *warnings, bool warns)
{
	return (struct unknown_check){ names, ignored, hints, warns, warnings };
}

static const struct {
	const char *given;
	const char *meant;
} nearest[] = {
	{ "memory", "resources.memory_mb" },
	{ "resources.memmory_mb", "resources.memory_mb" },
	{ "cpu", "resources.cpu" },
	{ "image", "base_image" },
	{ "commanx", "command" },
	{ "cmd", "command" },
	{ "timeout", "timeout_sec" },
	{ "env_vars", "env" },
	{ "cwd", NULL }, /* too short to be nearly "cpu" */
	{ "shoe_size", NULL },
	{ "", NULL },
};

TEST(a_name_that_is_like_a_known_one_was_meant_to_be_that)
{
	struct unknown_check c = check_of(NULL, false);

	for (size_t i = 0; i < ARRAY_SIZE(nearest); i++) {
		const char *got = unknown_nearest(&c, nearest[i].given);

		if (!nearest[i].meant != !got || (got && strcmp(got, nearest[i].meant) != 0))
			fail_msg("%s: %s", nearest[i].given, got ? got : "(none)");
	}
}

/* The message of the refusal, or NULL. */
static const char *look(const char *text, bool warns, json_t *warnings, struct problem *p)
{
	AUTO_JSON *body = NULL;
	struct unknown_check c = check_of(warnings, warns);

	CHECK_EQ(json_read(text, strlen(text), &body, NULL), 0);
	if (unknown_members(&c, body, "", "", p) < 0 ||
		unknown_members(
			&c, json_object_get(body, "resources"), "resources", "resources", p) < 0)
		return p->message;
	return NULL;
}

TEST(it_is_refused_by_name)
{
	AUTO_JSON *warnings = json_array();
	struct problem p = { 0 };

	CHECK(!look(
		"{\"command\":[],\"env\":null,\"resources\":{\"cpu\":1}}", false, warnings, &p));
	CHECK_STR(look("{\"memory\":1}", false, warnings, &p),
		"unknown field 'memory'; did you mean resources.memory_mb?");
	CHECK_EQ(p.status, 422);
	CHECK_STR(json_string_value(json_object_get(p.details, "field")), "memory");
	CHECK_STR(look("{\"resources\":{\"memmory_mb\":1}}", false, warnings, &p),
		"unknown field 'resources.memmory_mb'; did you mean resources.memory_mb?");
	CHECK_STR(look("{\"shoe_size\":null}", false, warnings, &p), "unknown field 'shoe_size'");
	CHECK_EQ(json_array_size(warnings), 0);
	problem_fini(&p);
}

/* The path of a member, as messages show it, is no name of a member. */
TEST(the_path_of_a_member_is_not_its_name)
{
	AUTO_JSON *warnings = json_array();
	struct problem p = { 0 };

	CHECK_STR(look("{\"resources.memory_mb\":64}", false, warnings, &p),
		"unknown field 'resources.memory_mb': memory_mb is a member of the object resources");
	problem_fini(&p);
	CHECK_STR(look("{\"resources.pids\":64}", false, warnings, &p),
		"unknown field 'resources.pids': pids is a member of the object resources");
	problem_fini(&p);
	CHECK_STR(look("{\"resources.memmory_mb\":64}", false, warnings, &p),
		"unknown field 'resources.memmory_mb'; did you mean resources.memory_mb?");
	problem_fini(&p);
	CHECK_EQ(json_array_size(warnings), 0);
}

TEST(what_means_nothing_here_or_is_only_warned_of_is_taken)
{
	AUTO_JSON *warnings = json_array();
	struct problem p = { 0 };

	CHECK(!look("{\"resources\":{\"pids\":9}}", false, warnings, &p));
	CHECK_STR(json_string_value(json_array_get(warnings, 0)),
		"field 'resources.pids' means nothing here and was ignored");
	CHECK(!look("{\"memory\":1}", true, warnings, &p));
	CHECK_STR(json_string_value(json_array_get(warnings, 1)),
		"unknown field 'memory'; did you mean resources.memory_mb?");
	CHECK_EQ(json_array_size(warnings), 2);
	CHECK_EQ(p.status, 0);
}

TEST(warnings_have_an_end)
{
	AUTO_JSON *warnings = json_array();
	AUTO_JSON *body = json_object();
	struct problem p = { 0 };
	struct unknown_check c = check_of(warnings, true);

	for (char name[] = "xa"; name[1] <= 'z'; name[1]++)
		(void)json_object_set_new(body, name, json_true());
	for (char name[] = "ya"; name[1] <= 'z'; name[1]++)
		(void)json_object_set_new(body, name, json_true());
	CHECK_EQ(unknown_members(&c, body, "", "", &p), 0);
	CHECK_EQ(json_array_size(warnings), UNKNOWN_WARNINGS_MAX);
}

TEST(a_name_that_is_no_ascii_is_told_of_all_the_same)
{
	AUTO_JSON *warnings = json_array();
	struct problem p = { 0 };

	CHECK_STR(look("{\"gr\u00f6\u00dfe\":1}", false, warnings, &p),
		"unknown field 'gr\\xc3\\xb6\\xc3\\x9fe'");
	CHECK_STR(json_string_value(json_object_get(p.details, "field")), "gr????e");
	problem_fini(&p);
}

TESTS(UNIT(a_name_that_is_like_a_known_one_was_meant_to_be_that), UNIT(it_is_refused_by_name),
	UNIT(the_path_of_a_member_is_not_its_name),
	UNIT(what_means_nothing_here_or_is_only_warned_of_is_taken), UNIT(warnings_have_an_end),
	UNIT(a_name_that_is_no_ascii_is_told_of_all_the_same))
