#include "api/accesslog.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "lib/test.h"

TEST(a_line_is_one_json_object)
{
	struct accesslog_entry e = {
		.method = "GET",
		.route = "/runs/{id}",
		.status = 200,
		.bytes = 12,
		.took_ns = 1234567,
		.peer = "127.0.0.1",
		.user_id = "ann",
		.trace_id = "0af7651916cd43dd8448eb211c80319c",
	};
	char line[1024];
	size_t n = accesslog_format(&e, line, sizeof(line));
	AUTO_JSON *o = NULL;
	struct err err;

	CHECK(n > 1 && line[n - 1] == '\n');
	CHECK(!memchr(line, '\n', n - 1));
	CHECK_EQ(json_read(line, n, &o, &err), 0);
	CHECK_STR(json_string_value(json_object_get(o, "route")), "/runs/{id}");
	CHECK_STR(json_string_value(json_object_get(o, "user_id")), "ann");
	CHECK_EQ(json_integer_value(json_object_get(o, "status")), 200);
	CHECK(json_real_value(json_object_get(o, "took_ms")) > 1.2);
	CHECK(!json_object_get(o, "run_id"));
}

TEST(a_line_that_does_not_fit_is_none)
{
	struct accesslog_entry e = { .method = "GET", .status = 200 };
	char line[16];

	CHECK_EQ(accesslog_format(&e, line, sizeof(line)), 0);
}

TESTS(UNIT(a_line_is_one_json_object), UNIT(a_line_that_does_not_fit_is_none))
