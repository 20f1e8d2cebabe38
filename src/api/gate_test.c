#include "api/gate.h"

#include <string.h>

#include "core/settings.h"
#include "lib/test.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

TEST(loopback_names_are_always_ours)
{
	struct settings c = { .host = (char *)"127.0.0.1" };
	static const char *const good[] = { "localhost", "LOCALHOST:8080", "127.0.0.1",
		"127.0.0.1:1", "[::1]", "[::1]:8080" };
	static const char *const bad[] = { "", ":80", "evil.example", "localhost.evil.example",
		"evil.example:8080", "127.0.0.1.evil.example", "::1", "[::1", "[::1]x",
		"localhost:", "localhost:80x", "localhost:80:80", "[]", "10.0.0.1",
		"user@localhost" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(gate_is_host_allowed(&c, good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!gate_is_host_allowed(&c, bad[i]));
}

TEST(a_name_that_is_too_long_is_none)
{
	struct settings c = { .host = (char *)"127.0.0.1" };
	char name[400];

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(!gate_is_host_allowed(&c, name));
}

TEST(further_names_come_from_the_settings)
{
	char *hosts[] = { (char *)"box.example", NULL };
	struct settings c = { .host = (char *)"192.0.2.7",
		.allowed_hosts = hosts,
		.public_url = (char *)"https://public.example:8443/sandbox" };

	CHECK(gate_is_host_allowed(&c, "box.example:9"));
	CHECK(gate_is_host_allowed(&c, "Public.Example"));
	CHECK(gate_is_host_allowed(&c, "192.0.2.7:8080"));
	CHECK(!gate_is_host_allowed(&c, "192.0.2.8"));
	CHECK(!gate_is_host_allowed(&c, "sub.box.example"));
}

TEST(a_server_of_every_address_takes_addresses_but_no_names)
{
	struct settings c = { .host = (char *)"0.0.0.0" };

	CHECK(gate_is_host_allowed(&c, "192.0.2.8:80"));
	CHECK(gate_is_host_allowed(&c, "[2001:db8::1]:80"));
	CHECK(!gate_is_host_allowed(&c, "rebound.example"));
	c.host = (char *)"::";
	CHECK(gate_is_host_allowed(&c, "192.0.2.8:80"));
}

TEST(pages_of_strangers_are_refused)
{
	char *origins[] = { (char *)"https://app.example", NULL };
	struct settings c = { .host = (char *)"127.0.0.1",
		.allowed_origins = origins,
		.public_url = (char *)"https://public.example/x" };
	const char *own = "localhost:8080";

	CHECK(gate_is_origin_allowed(&c, own, "http://localhost:8080"));
	CHECK(gate_is_origin_allowed(&c, own, "http://LocalHost:8080"));
	CHECK(gate_is_origin_allowed(&c, "[::1]:3000", "http://[::1]:3000"));
	CHECK(gate_is_origin_allowed(&c, own, "https://public.example"));
	CHECK(!gate_is_origin_allowed(&c, own, "https://public.exampl"));
	CHECK(!gate_is_origin_allowed(&c, own, "https://public.example:81"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://public.example"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://localhost:3000"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://localhost"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://127.0.0.1:8080"));
	CHECK(!gate_is_origin_allowed(&c, NULL, "http://localhost:8080"));
	CHECK(gate_is_origin_allowed(&c, own, "https://app.example"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://app.example"));
	CHECK(!gate_is_origin_allowed(&c, own, "https://app.example:8443"));
	CHECK(!gate_is_origin_allowed(&c, own, "https://evil.example"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://localhost.evil.example"));
	CHECK(!gate_is_origin_allowed(&c, own, "http://localhost/x"));
	CHECK(!gate_is_origin_allowed(&c, own, "null"));
	CHECK(!gate_is_origin_allowed(&c, own, "file://"));
	CHECK(!gate_is_origin_allowed(&c, own, "localhost"));
	CHECK(!gate_is_origin_allowed(&c, own, ""));
}

TEST(addresses_of_one_network_share_a_bucket)
{
	char a[GATE_BUCKET_SIZE];
	char b[GATE_BUCKET_SIZE];

	gate_bucket("192.0.2.1", a);
	CHECK_STR(a, "192.0.2.1");
	gate_bucket("2001:db8:1:2:3::4", a);
	gate_bucket("2001:db8:1:2:ffff::9", b);
	CHECK_STR(a, "2001:0db8:0001:0002::/64");
	CHECK_STR(a, b);
	gate_bucket("2001:db8:1:3::", b);
	CHECK_STR(b, "2001:0db8:0001:0003::/64");
	gate_bucket("unix", a);
	CHECK_STR(a, "unix");
}

TEST(a_traceparent_has_a_trace)
{
	char id[33] = "untouched";

	CHECK(gate_parse_trace("00-" TRACE "-" PARENT "-01", id));
	CHECK_STR(id, TRACE);
	CHECK(gate_parse_trace("cc-" TRACE "-" PARENT "-01-what-comes-later", id));
}

TEST(a_malformed_traceparent_has_none)
{
	static const char *const bad[] = {
		"",
		"00",
		"00-" TRACE "-" PARENT,
		"00-" TRACE "-" PARENT "-01-more",
		"00-" TRACE "-" PARENT "-01x",
		"cc-" TRACE "-" PARENT "-01x",
		"ff-" TRACE "-" PARENT "-01",
		"00-00000000000000000000000000000000-" PARENT "-01",
		"00-" TRACE "-0000000000000000-01",
		"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01",
		"00-" TRACE "x" PARENT "-01",
		"0x-" TRACE "-" PARENT "-01",
		"00-" TRACE "-" PARENT "-0g",
	};
	char id[33] = "untouched";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!gate_parse_trace(bad[i], id));
	CHECK_STR(id, "untouched");
}

TESTS(UNIT(loopback_names_are_always_ours), UNIT(a_name_that_is_too_long_is_none),
	UNIT(further_names_come_from_the_settings),
	UNIT(a_server_of_every_address_takes_addresses_but_no_names),
	UNIT(pages_of_strangers_are_refused), UNIT(addresses_of_one_network_share_a_bucket),
	UNIT(a_traceparent_has_a_trace), UNIT(a_malformed_traceparent_has_none))
