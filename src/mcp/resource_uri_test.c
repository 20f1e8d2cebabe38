#include "mcp/resource_uri.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/test.h"

TEST(ours_are_taken_apart)
{
	struct resource_uri u;

	CHECK_EQ(resource_uri_parse("belljar://sess_1/a.png", &u), 0);
	CHECK_STR(u.session, "sess_1");
	CHECK_STR(u.path, "a.png");
	CHECK_EQ(resource_uri_parse("belljar://s/out/plot%20a%C3%A4.png", &u), 0);
	CHECK_STR(u.path, "out/plot a\xc3\xa4.png");
}

TEST(others_are_refused)
{
	static const char *const bad[] = { "", "belljar:", "belljar://", "belljar://s",
		"belljar://s/", "belljar:///a", "file:///etc/passwd", "BELLJAR://s/a",
		"belljar://s//a", "belljar://s/../t/a", "belljar://s/a/..", "belljar://s/%2e%2e/a",
		"belljar://s/%252e%252e/a", "belljar://s/a%00", "belljar://s/a%", "belljar://s/a%4",
		"belljar://s/a%zz", "belljar://s/a\\b", "belljar://s/%ff", "belljar://s/a%0a" };
	struct resource_uri u;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (resource_uri_parse(bad[i], &u) != -EINVAL)
			fail_msg("%s", bad[i]);
	}
}

TEST(they_are_not_longer_than_can_be)
{
	struct resource_uri u;
	char text[2200];

	for (unsigned over = 0; over <= 1; over++) {
		(void)snprintf(
			text, sizeof(text), "belljar://%0*d/a", (int)(RESOURCE_NAME_MAX + over), 0);
		CHECK_EQ(resource_uri_parse(text, &u), over ? -EINVAL : 0);
		(void)snprintf(text, sizeof(text), "belljar://s/%0200d/%0200d/%0200d/%0200d/%0*d",
			0, 0, 0, 0, (int)(RESOURCE_PATH_MAX - 4 * 201 + over), 0);
		CHECK_EQ(resource_uri_parse(text, &u), over ? -EINVAL : 0);
	}
}

TESTS(UNIT(ours_are_taken_apart), UNIT(others_are_refused), UNIT(they_are_not_longer_than_can_be))
