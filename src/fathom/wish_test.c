#include "fathom/wish.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "fathom/fathom_message.h"
#include "lang/lang.h"
#include "lib/test.h"

static json_t *make(const char *members)
{
	char text[1024];
	struct err err = { 0 };
	struct fathom_message m;

	(void)snprintf(text, sizeof(text),
		"{\"v\":1,\"type\":\"execute\",\"id\":\"e1\",\"ts\":\"2025-12-27T11:30:00Z\","
		"\"language\":\"python\",\"code\":\"print(1)\"%s}",
		members);
	if (fathom_message_parse(text, strlen(text), &m, &err) < 0)
		fail_msg("%s", err.text);
	json_t *body = wish_make(&m, lang_find("python"), "host");
	fathom_message_fini(&m); /* wipes what was its own */
	return body;
}

static void parse(const json_t *body, struct request *ret)
{
	struct problem p = { 0 };

	if (request_parse(body, REQUEST_RUN, ret, &p) < 0)
		fail_msg("%s", p.message);
}

TEST(it_is_a_request_like_any_other)
{
	AUTO_JSON *body = make(",\"stdin\":\"in\",\"env\":{\"A\":\"1\"},\"limits\":{"
			       "\"timeout_ms\":1500,\"memory_mb\":64,\"cpu_shares\":512,"
			       "\"max_output_bytes\":9}");
	struct request r;

	parse(body, &r);
	CHECK_STR(r.base_image, "host");
	CHECK_STR(json_string_value(json_array_get(r.command, 0)), "python3");
	CHECK_EQ(json_array_size(r.files), 1);
	CHECK_STR(json_string_value(json_object_get(json_array_get(r.files, 0), "content_b64")),
		"cHJpbnQoMSk=");
	CHECK_STR(r.input, "in");
	CHECK_STR(json_string_value(json_object_get(r.env, "A")), "1");
	CHECK_EQ(r.timeout_ms, 1500);
	CHECK_EQ(r.memory_mb, 64);
	CHECK_EQ(r.cpu_milli, 500);
	CHECK_EQ(r.max_output_bytes, 9);
	CHECK_STR(json_string_value(json_object_get(r.labels, "door")), "fathom");
	CHECK_STR(json_string_value(json_object_get(r.labels, "execution_id")), "e1");
	request_fini(&r);
}

TEST(the_clients_variables_come_before_the_languages)
{
	AUTO_JSON *body = make(",\"env\":{\"PYTHONUNBUFFERED\":\"\"},\"limits\":{"
			       "\"timeout_ms\":1,\"memory_mb\":64,\"cpu_shares\":2}");
	struct request r;

	parse(body, &r);
	CHECK_STR(json_string_value(json_object_get(r.env, "PYTHONUNBUFFERED")), "");
	CHECK_STR(json_string_value(json_object_get(r.env, "PYTHONDONTWRITEBYTECODE")), "1");
	CHECK(r.input == NULL);
	CHECK_EQ(r.cpu_milli, 10);
	request_fini(&r);
}

TEST(a_path_is_for_the_program_and_not_for_who_runs_it)
{
	AUTO_JSON *body = make(",\"env\":{\"PATH\":\"/x\"},\"limits\":{"
			       "\"timeout_ms\":1,\"memory_mb\":64}");
	char program[256] = "python3";
	struct request r;

	parse(body, &r);
	(void)lang_find_program(lang_find("python"), program, sizeof(program));
	CHECK_STR(json_string_value(json_array_get(r.command, 0)), program);
	CHECK_STR(json_string_value(json_object_get(r.env, "PATH")), "/x");
	request_fini(&r);
}

TESTS(UNIT(a_path_is_for_the_program_and_not_for_who_runs_it), UNIT(it_is_a_request_like_any_other),
	UNIT(the_clients_variables_come_before_the_languages))
