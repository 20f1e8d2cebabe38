#include "core/file_url.h"

#include <string.h>

#include "base/str.h"
#include "core/settings.h"
#include "core/sign.h"
#include "lib/test.h"

#define ID "0e4e8a2a-4c7c-4c31-9d3c-0123456789ab"

static void check(const struct file_url_maker *m, const char *path, const char *url)
{
	AUTO_FREE char *got = file_url_make(m, ID, path, 1000);

	CHECK_STR(got, url);
}

TEST(a_url_is_where_the_client_reaches_us)
{
	struct settings c = { 0 };
	struct file_url_maker m = { .settings = &c };

	check(&m, "plots/a b.png", "/files/" ID "/plots/a%20b.png");
	m.base = "http://127.0.0.1:8080";
	check(&m, "r?.pdf", "http://127.0.0.1:8080/files/" ID "/r%3F.pdf");
	c.public_url = (char *)"https://box.example/x//";
	check(&m, "a", "https://box.example/x/files/" ID "/a");
}

TEST(one_that_is_signed_says_until_when)
{
	struct settings c = { .files_signed_url_ttl_sec = 60 };
	struct file_url_maker m = { .settings = &c, .secret = "secret" };
	char token[SIGN_SIZE + 1];
	char expected[256];

	check(&m, "a", "/files/" ID "/a"); /* not asked for */
	c.files_signed_urls = true;
	sign_make_file("secret", SIGN_REMOTE, ID, "a/\xc3\xa9", 1060, token);
	(void)snprintf(
		expected, sizeof(expected), "/files/" ID "/a/%%C3%%A9?token=%s&exp=1060", token);
	check(&m, "a/\xc3\xa9", expected);
	m.secret = NULL;
	check(&m, "a", "/files/" ID "/a");
}

TEST(one_for_a_local_client_is_always_signed)
{
	struct settings c = { .files_signed_url_ttl_sec = 60 };
	struct file_url_maker m = { .settings = &c, .secret = "secret", .is_local = true };
	char token[SIGN_SIZE + 1];
	char expected[256];

	sign_make_file("secret", SIGN_LOCAL, ID, "a", 1060, token);
	(void)snprintf(expected, sizeof(expected), "/files/" ID "/a?token=%s&exp=1060", token);
	check(&m, "a", expected);
	CHECK(file_url_is_signed(&m));
	c.files_signed_urls = true;
	sign_make_file("secret", SIGN_REMOTE, ID, "a", 1060, token);
	(void)snprintf(expected, sizeof(expected), "/files/" ID "/a?token=%s&exp=1060", token);
	check(&m, "a", expected);
	m.secret = NULL;
	CHECK(!file_url_is_signed(&m));
}

TESTS(UNIT(a_url_is_where_the_client_reaches_us), UNIT(one_that_is_signed_says_until_when),
	UNIT(one_for_a_local_client_is_always_signed))
