/* The files within a request for a run. */
#include "base/str.h"
#include "core/request_sample.h"

TEST(inline_files_are_checked_by_index)
{
	static const char *const cases[] = {
		"1",
		"\"a\"",
		"{}",
		"{\"path\":\"a\"}",
		"{\"content_b64\":\"\"}",
		"{\"path\":1,\"content_b64\":\"\"}",
		"{\"path\":\"a\",\"content_b64\":null}",
		"{\"path\":\"\",\"content_b64\":\"\"}",
		"{\"path\":\"/a\",\"content_b64\":\"\"}",
		"{\"path\":\"a/../b\",\"content_b64\":\"\"}",
		"{\"path\":\"..\",\"content_b64\":\"\"}",
		"{\"path\":\"a//b\",\"content_b64\":\"\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		REQUEST(r);
		PROBLEM(p);
		char member[256];

		(void)snprintf(member, sizeof(member),
			"\"files\":[{\"path\":\"ok\",\"content_b64\":\"\"},%s]", cases[i]);
		if (parse(run_with(member), REQUEST_RUN, &r, &p) != -1)
			fail_msg("accepted: %s", cases[i]);
		CHECK_STR(p.code, "invalid_inline_file");
		CHECK_EQ(p.status, 422);
		CHECK(str_after(p.message, "invalid inline file at index 1") != NULL);
		CHECK_EQ(json_integer_value(json_object_get(p.details, "index")), 1);
	}
}

TEST(inline_files_are_decoded)
{
	REQUEST(r);
	PROBLEM(p);
	struct upload_inline *files = NULL;
	size_t n = 99;

	CHECK_EQ(parse(run_with("\"files\":[{\"path\":\"d/a.py\",\"content_b64\":\"cHJpbnQoKQ==\"},"
				"{\"path\":\"b\",\"content_b64\":\"\"},"
				"{\"path\":\"c\",\"content_b64\":\"AAEC\"}]"),
			 REQUEST_RUN, &r, &p),
		0);
	CHECK_EQ(request_decode_files(&r, 9, &files, &n, &p), -1);
	CHECK_STR(p.code, "payload_too_large");
	CHECK_EQ(p.status, 413);
	CHECK_STR(p.message, "files[2].content_b64: the inline files are larger than their limit "
			     "of 9 bytes together");
	CHECK_STR(json_string_value(json_object_get(p.details, "field")), "files[2].content_b64");
	CHECK_EQ(json_integer_value(json_object_get(p.details, "limit_bytes")), 9);
	CHECK(files == NULL && n == 99);
	CHECK_EQ(request_decode_files(&r, 10, &files, &n, &p), 0);
	CHECK_EQ(n, 3);
	CHECK_STR(files[0].path, "d/a.py");
	CHECK_EQ(files[0].size, 7);
	CHECK_MEM(files[0].data, "print()", 7);
	CHECK_EQ(files[1].size, 0);
	CHECK_EQ(files[2].size, 3);
	CHECK_MEM(files[2].data, "\0\1\2", 3);
	request_free_files(files, n);
}

TEST(binary_files_are_told_from_text)
{
	PROBLEM(p);
	const struct upload_inline files[] = {
		{ "a", "text", 4 },
		{ "b", "", 0 },
		{ "c",
			"\x7f"
			"ELF",
			4 },
		{ "d", "a\0b", 3 },
	};

	CHECK_EQ(request_check_binaries(files, 2, NULL, &p), 0);
	CHECK_EQ(request_check_binaries(files, 4, NULL, &p), -1);
	CHECK_STR(p.code, "invalid_inline_file");
	CHECK_EQ(p.status, 422);
	CHECK_EQ(json_integer_value(json_object_get(p.details, "index")), 2);
	CHECK_EQ(request_check_binaries(files + 3, 1, NULL, &p), -1);
	/* What the server's own list names may be. */
	char *const allow[] = { (char[]){ "c" }, (char[]){ "*.png" }, NULL };
	CHECK_EQ(request_check_binaries(files, 3, allow, &p), 0);
	CHECK_EQ(request_check_binaries(files, 4, allow, &p), -1);
	CHECK_EQ(json_integer_value(json_object_get(p.details, "index")), 3);
}

TEST(paths_that_are_in_each_others_way_are_refused)
{
	static const struct {
		const char *paths[3];
		int index; /* of the one that is refused; -1: none is */
	} cases[] = {
		{ { "x", "y", "d/x" }, -1 },
		{ { "d/x", "d/y", "d.x" }, -1 },
		{ { "y", "x", "x/y" }, 2 },
		{ { "x/y/z", "y", "x" }, 0 },
		{ { "y", "x", "y" }, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct upload_inline files[3] = { 0 };
		PROBLEM(p);

		for (size_t j = 0; j < 3; j++)
			files[j].path = cases[i].paths[j];
		CHECK_EQ(request_check_paths(files, 3, &p), cases[i].index < 0 ? 0 : -1);
		if (cases[i].index < 0)
			continue;
		CHECK_EQ(p.status, 422);
		CHECK_STR(p.code, "invalid_inline_file");
		CHECK_EQ(json_integer_value(json_object_get(p.details, "index")), cases[i].index);
		CHECK_STR(json_string_value(json_object_get(p.details, "path")),
			cases[i].paths[cases[i].index]);
	}
}

TEST(what_is_not_base64_is_refused)
{
	static const char *const cases[] = { "a", "====", "AA=", "A===", "AAA*", "AA==AAAA",
		"AAAA\\n", "AB==" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		REQUEST(r);
		PROBLEM(p);
		struct upload_inline *files = NULL;
		size_t n = 0;
		char member[128];

		(void)snprintf(member, sizeof(member),
			"\"files\":[{\"path\":\"a\",\"content_b64\":\"%s\"}]", cases[i]);
		CHECK_EQ(parse(run_with(member), REQUEST_RUN, &r, &p), 0);
		CHECK_EQ(request_decode_files(&r, 100, &files, &n, &p), -1);
		CHECK_STR(p.code, "invalid_inline_file");
		CHECK(files == NULL);
	}
}

TEST(without_files_there_are_none)
{
	REQUEST(r);
	PROBLEM(p);
	struct upload_inline *files = NULL;
	size_t n = 99;

	CHECK_EQ(parse(run_with(""), REQUEST_RUN, &r, &p), 0);
	CHECK_EQ(request_decode_files(&r, 0, &files, &n, &p), 0);
	CHECK_EQ(n, 0);
	request_free_files(files, n);
}

TESTS(UNIT(inline_files_are_checked_by_index), UNIT(inline_files_are_decoded),
	UNIT(binary_files_are_told_from_text), UNIT(paths_that_are_in_each_others_way_are_refused),
	UNIT(what_is_not_base64_is_refused), UNIT(without_files_there_are_none))
