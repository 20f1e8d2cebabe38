#include "image/document.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

static int parse(const char *text, struct err *err)
{
	AUTO_JSON *json = NULL;

	return document_parse(text, strlen(text), "it", &json, err);
}

TEST(good_documents_are_parsed)
{
	CHECK_EQ(parse("{\"a\": [1, \"[[[[\\\"[[[[\"]}", NULL), 0);
	CHECK_EQ(parse("[]", NULL), 0);
}

TEST(bad_documents_are_refused_with_their_name)
{
	static const struct {
		const char *text;
		int code;
	} bad[] = {
		{ "", -EBADMSG },
		{ "hello", -EBADMSG },
		{ "{", -EBADMSG },
		{ "{} {}", -EBADMSG },
		{ "{\"a\":1,\"a\":2}", -EBADMSG },
		{ "\"text\"", -EBADMSG },
		{ "{\"a\":\"\\u0000\"}", -EBADMSG },
		{ "{\"a\":\"\xff\"}", -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };

		CHECK_EQ(parse(bad[i].text, &err), bad[i].code);
		CHECK(strncmp(err.text, "it is not good JSON", 19) == 0);
	}
}

TEST(depth_is_limited)
{
	char text[2 * DOCUMENT_DEPTH_MAX + 3];

	memset(text, '[', DOCUMENT_DEPTH_MAX);
	memset(text + DOCUMENT_DEPTH_MAX, ']', DOCUMENT_DEPTH_MAX);
	text[2 * DOCUMENT_DEPTH_MAX] = '\0';
	CHECK_EQ(parse(text, NULL), 0);
	memset(text, '[', DOCUMENT_DEPTH_MAX + 1);
	memset(text + DOCUMENT_DEPTH_MAX + 1, ']', DOCUMENT_DEPTH_MAX + 1);
	text[2 * DOCUMENT_DEPTH_MAX + 2] = '\0';
	CHECK_EQ(parse(text, NULL), -EFBIG);
}

TEST(size_is_limited)
{
	AUTO_FREE char *text = malloc(DOCUMENT_SIZE_MAX + 2);
	json_t *json = NULL;

	memset(text, ' ', DOCUMENT_SIZE_MAX + 2);
	memcpy(text, "[]", 2);
	CHECK_EQ(document_parse(text, DOCUMENT_SIZE_MAX + 1, "it", &json, NULL), -EFBIG);
	CHECK_EQ(document_parse(text, DOCUMENT_SIZE_MAX, "it", &json, NULL), 0);
	json_decref(json);
}

TESTS(UNIT(good_documents_are_parsed), UNIT(bad_documents_are_refused_with_their_name),
	UNIT(depth_is_limited), UNIT(size_is_limited))
