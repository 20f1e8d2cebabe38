#include "core/mime.h"

#include <pthread.h>
#include <string.h>

#include "base/str.h"
#include "lib/test.h"

TEST(names_decide_first)
{
	static const char *const rows[][2] = {
		{ "a.txt", "text/plain" },
		{ "dir.d/a.CSV", "text/csv" },
		{ "a.json", "application/json" },
		{ "a.md", "text/markdown" },
		{ "a.html", "text/html" },
		{ "a.py", "text/x-python" },
		{ "a.png", "image/png" },
		{ "a.tar.gz", "application/gzip" },
		{ "7.7z", "application/x-7z-compressed" },
		{ "z.zst", "application/zstd" },
		{ "a.woff2", "font/woff2" },
		{ "a.unheardof", NULL },
		{ "txt", NULL },
		{ ".txt", NULL },
		{ "a.txt/b", NULL },
		{ "a.", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *type = mime_of_name(rows[i][0]);

		CHECK_EQ(!type, !rows[i][1]);
		if (type)
			CHECK_STR(type, rows[i][1]);
	}
}

static void check(const char *name, const char *head, size_t size, const char *type)
{
	char got[MIME_SIZE];

	mime_of(name, head, size, got);
	CHECK_STR(got, type);
}

TEST(content_decides_next)
{
	check("a.txt", "\x89PNG\r\n\x1a\n", 8, "text/plain");
	check("result", "{\"a\": 1}", 8, "application/json");
	check("result", "just some words\n", 16, "text/plain");
	check("result", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\x06", 26, "image/png");
	check("result", "%PDF-1.4\n", 9, "application/pdf");
	check("result", "\x01\x02\x03\xff\xfe\x00\x91", 7, "application/octet-stream");
	check("empty", "", 0, "application/octet-stream");
	check("empty.csv", "", 0, "text/csv");
}

static void *ask(void *ctx)
{
	char got[MIME_SIZE];

	for (int i = 0; i < 50; i++) {
		mime_of("x", "%PDF-1.4\n", 9, got);
		if (!streq(got, "application/pdf"))
			return ctx;
	}
	return NULL;
}

TEST(threads_have_their_own)
{
	pthread_t threads[4];
	void *bad;

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, ask, &bad), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		CHECK_EQ(pthread_join(threads[i], &bad), 0);
		CHECK(!bad);
	}
}

TEST(text_is_worth_compressing)
{
	CHECK(mime_is_text("text/html"));
	CHECK(mime_is_text("application/json"));
	CHECK(mime_is_text("image/svg+xml"));
	CHECK(!mime_is_text("image/png"));
	CHECK(!mime_is_text("application/zip"));
	CHECK(!mime_is_text("application/octet-stream"));
}

TESTS(UNIT(names_decide_first), UNIT(content_decides_next), UNIT(threads_have_their_own),
	UNIT(text_is_worth_compressing))
