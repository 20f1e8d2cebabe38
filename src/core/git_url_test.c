#include "core/git_url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

static char https[] = "https", http[] = "http", file[] = "file", git[] = "git", ssh[] = "ssh";
static char *const usual[] = { https, NULL };
static char *const all[] = { https, http, file, git, ssh, NULL };

TEST(good_urls_pass)
{
	static const char *const good[] = { "https://example.org/a.git",
		"https://user:pass@example.org/a", "https://example.org:8443/a?x=y",
		"https://[2001:db8::1]:443/a", "http://10.0.0.1/a", "git://example.org/a",
		"file:///srv/git/a" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_EQ(git_url_check(good[i], all, NULL), 0);
}

TEST(others_are_refused_without_their_secret)
{
	static const struct {
		const char *url;
		int code;
	} rows[] = {
		{ "", -EINVAL },
		{ "/srv/git/a", -EINVAL },
		{ "../a", -EINVAL },
		{ "git@example.org:a/hunter2.git", -EINVAL },
		{ "ext::sh -c hunter2", -EINVAL },
		{ "ext::sh://x", -EPERM },
		{ "ssh://git:hunter2@example.org/a", -EPERM },
		{ "HTTPS://example.org/a", -EPERM },
		{ "ftp://example.org/a", -EPERM },
		{ "https://", -EINVAL },
		{ "https:///a", -EINVAL },
		{ "https://example.org", -EINVAL },
		{ "https://example.org?hunter2", -EINVAL },
		{ "https://exa mple.org/a", -EINVAL },
		{ "https://example.org/a\nb", -EINVAL },
		{ "https://example.org\\a/b", -EINVAL },
		{ "https://-oProxyCommand=x/a", -EINVAL },
		{ "https://user:hunter2@/a", -EINVAL },
		{ "https://host:port/a", -EINVAL },
		{ "https://[::1/a", -EINVAL },
		{ "file://host/a", -EINVAL },
		{ "file://u:hunter2@/a", -EINVAL },
		{ "file:///a%2fb", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		int r = git_url_check(rows[i].url, all, &err);

		if (r != rows[i].code)
			fail_msg("'%s' gave %d", rows[i].url, r);
		CHECK(err.text[0] && !strstr(err.text, "hunter2"));
	}
}

TEST(only_https_is_usual)
{
	struct err err = { 0 };

	CHECK_EQ(git_url_check("https://example.org/a", usual, NULL), 0);
	CHECK_EQ(git_url_check("http://example.org/a", usual, &err), -EPERM);
	CHECK_STR(err.text, "http:// repositories are not allowed here");
	CHECK_EQ(git_url_check("file:///a", usual, NULL), -EPERM);
	CHECK_EQ(git_url_check("git://example.org/a", usual, NULL), -EPERM);
	CHECK_EQ(git_url_check("https://example.org/a", NULL, NULL), -EPERM);
}

TEST(urls_are_shown_without_secrets)
{
	char text[128];

	git_url_show("https://user:hunter2@example.org:1/a/b?token=hunter3#x", text, sizeof(text));
	CHECK_STR(text, "https://example.org:1/a/b");
	git_url_show("ext::hunter2", text, sizeof(text));
	CHECK_STR(text, "(no URL)");
	git_url_show("https://e.org/a", text, 9);
	CHECK_STR(text, "https://");
}

TEST(secrets_are_scrubbed)
{
	static const char url[] = "https://user:hunter2@example.org/a?token=hunter3";
	char text[] = "can not reach https://user:hunter2@example.org/a?token=hunter3: bad hunter2";
	char other[] = "nothing of it";

	git_url_scrub(url, text);
	CHECK(!strstr(text, "hunter2") && !strstr(text, "hunter3"));
	CHECK(strstr(text, "@example.org/a?"));
	git_url_scrub(url, other);
	CHECK_STR(other, "nothing of it");
	git_url_scrub("no url", other);
	git_url_scrub("https://example.org/a", other);
	CHECK_STR(other, "nothing of it");
}

TESTS(UNIT(good_urls_pass), UNIT(others_are_refused_without_their_secret),
	UNIT(only_https_is_usual), UNIT(urls_are_shown_without_secrets), UNIT(secrets_are_scrubbed))
