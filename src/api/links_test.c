#include "api/links.h"

#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/settings.h"
#include "core/sign.h"
#include "lib/test.h"
#include "store/record.h"

#define RUN "11111111-2222-4333-8444-555555555555"

TEST(paths_stand_alone_without_a_public_url)
{
	struct settings c = { 0 };
	struct api api = { .settings = &c };
	struct run_row row = { .id = (char *)RUN, .user_id = (char *)"ann" };
	AUTO_FREE char *stream = links_stream(&api, &row, 0);
	AUTO_FREE char *resumed = links_stream(&api, &row, 7);
	AUTO_FREE char *artifact = links_artifact(&api, RUN, "dist/a b%.txt");

	CHECK_STR(stream, "/api/v1/sandbox/runs/" RUN "/stream");
	CHECK_STR(resumed, "/api/v1/sandbox/runs/" RUN "/stream?from_seq=7");
	CHECK_STR(artifact, "/api/v1/sandbox/runs/" RUN "/artifacts/dist/a%20b%25.txt");
}

TEST(a_public_url_comes_first)
{
	struct settings c = { .public_url = (char *)"https://box.example/x/" };
	struct api api = { .settings = &c };
	struct run_row row = { .id = (char *)RUN, .user_id = (char *)"ann" };
	AUTO_FREE char *stream = links_stream(&api, &row, 0);
	AUTO_FREE char *artifact = links_artifact(&api, RUN, "\xc3\xa4");

	CHECK_STR(stream, "wss://box.example/x/api/v1/sandbox/runs/" RUN "/stream");
	CHECK_STR(artifact, "https://box.example/x/api/v1/sandbox/runs/" RUN "/artifacts/%C3%A4");
}

TEST(a_signature_is_one_that_is_accepted)
{
	struct settings c = { .ws_signed_urls = true, .ws_signed_url_ttl_sec = 60 };
	struct api api = { .settings = &c, .signing_secret = (char *)"secret" };
	struct run_row row = { .id = (char *)RUN, .user_id = (char *)"a@b" };
	AUTO_FREE char *url = links_stream(&api, &row, 3);
	uint64_t now = clock_realtime_ns() / 1000000000u;
	char token[SIGN_SIZE + 1] = "";
	char exp[24] = "";

	const char *query = str_after(url, "/api/v1/sandbox/runs/" RUN "/stream?");
	CHECK(query != NULL);
	if (!query)
		return; /* not reached, but for the analyzer */
	CHECK_EQ(sscanf(query, "token=%64[0-9a-f]&exp=%20[0-9]", token, exp), 2);
	CHECK(strstr(query, "&u=a%40b&from_seq=3") != NULL);
	CHECK_EQ(sign_check("secret", RUN, exp, token, now), 0);
	CHECK(sign_check("secret", RUN, exp, token, now + 61) < 0);
}

TEST(where_a_request_reached_us)
{
	static const struct {
		const char *host;
		bool is_tls;
		const char *base;
	} rows[] = {
		{ "127.0.0.1:8080", false, "http://127.0.0.1:8080" },
		{ "[::1]:8080", true, "https://[::1]:8080" },
		{ "box.example", true, "https://box.example" },
		{ "a/b", false, NULL },
		{ "a@b", false, NULL },
		{ "", false, NULL },
		{ NULL, false, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *base = links_base(rows[i].host, rows[i].is_tls);

		if (rows[i].base)
			CHECK_STR(base, rows[i].base);
		else
			CHECK(base == NULL);
	}
}

TESTS(UNIT(paths_stand_alone_without_a_public_url), UNIT(a_public_url_comes_first),
	UNIT(a_signature_is_one_that_is_accepted), UNIT(where_a_request_reached_us))
