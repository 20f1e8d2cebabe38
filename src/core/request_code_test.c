#include "core/request_code.h"

#include <string.h>

#include "base/str.h"
#include "core/request_sample.h"
#include "core/session.h"
#include "core/settings.h"

static const struct settings settings = { .max_inline_bytes = 64 };

/* 0 with a request that has a command, or -1 with a problem. */
static int expand(
	const char *text, const struct session *session, struct request *r, struct problem *p)
{
	if (parse(text, REQUEST_RUN, r, p) < 0)
		fail_msg("%s: %s", text, p->message);
	return request_expand_code(r, session, &settings, p);
}

static const char *item(const json_t *list, size_t i)
{
	return json_string_value(json_array_get(list, i));
}

TEST(code_becomes_a_command_and_a_file)
{
	REQUEST(r);
	PROBLEM(p);

	CHECK_EQ(expand("{\"language\":\"sh\",\"code\":\"echo $1\",\"args\":[\"a\"],"
			"\"files\":[{\"path\":\"b\",\"content_b64\":\"\"}]}",
			 NULL, &r, &p),
		0);
	CHECK_STR(r.base_image, "host");
	CHECK(!r.language && !r.code && !r.args);
	CHECK(!json_object_get(r.body, "code"));
	CHECK_STR(item(r.command, json_array_size(r.command) - 1), "a");
	const json_t *file = json_array_get(r.files, 1);
	CHECK_STR(json_string_value(json_object_get(file, "path")), "main.sh");
	CHECK_STR(json_string_value(json_object_get(file, "content_b64")), "ZWNobyAkMQ==");
}

TEST(an_image_is_kept_and_none_is_needed_in_a_session)
{
	char image[] = "alpine";
	char env[] = "{\"OF_SESSION\":\"1\"}";
	const struct session session = { .row = { .base_image = image, .env = env } };
	REQUEST(r);
	REQUEST(in);
	PROBLEM(p);

	CHECK_EQ(expand("{\"language\":\"python\",\"code\":\"\",\"base_image\":\"alpine\"}", NULL,
			 &r, &p),
		0);
	CHECK_STR(r.base_image, "alpine");
	CHECK_EQ(expand("{\"language\":\"python\",\"code\":\"\",\"session_id\":\"s\"}", &session,
			 &in, &p),
		0);
	CHECK(!in.base_image);
	CHECK_STR(json_string_value(json_object_get(in.env, "OF_SESSION")), "1");
}

static const struct {
	const char *text;
	const char *field;
	int status;
} wrong[] = {
	{ "{\"language\":\"klingon\",\"code\":\"\"}", "language", 422 },
	{ "{\"language\":\"python\",\"code\":\"\",\"files\":"
	  "[{\"path\":\"main.py\",\"content_b64\":\"\"}]}",
		"files[0]", 422 },
	{ "{\"language\":\"sh\",\"code\":"
	  "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
		"code", 413 },
};

TEST(what_can_not_be_run_is_refused_by_field)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		REQUEST(r);
		PROBLEM(p);

		CHECK_EQ(expand(wrong[i].text, NULL, &r, &p), -1);
		CHECK_EQ(p.status, wrong[i].status);
		CHECK_STR(json_string_value(json_object_get(p.details, "field")), wrong[i].field);
	}
}

TEST(a_command_stays_as_it_is)
{
	REQUEST(r);
	PROBLEM(p);

	CHECK_EQ(expand(run_with(""), NULL, &r, &p), 0);
	CHECK_EQ(json_array_size(r.command), 1);
	CHECK(!r.files);
}

TESTS(UNIT(code_becomes_a_command_and_a_file),
	UNIT(an_image_is_kept_and_none_is_needed_in_a_session),
	UNIT(what_can_not_be_run_is_refused_by_field), UNIT(a_command_stays_as_it_is))
