#include "probe/version.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

static struct version parse(const char *text)
{
	struct version v = { 0 };

	CHECK_EQ(version_parse(text, &v), 0);
	return v;
}

static int compare(const char *a, const char *b)
{
	struct version va = parse(a);
	struct version vb = parse(b);

	return version_compare(&va, &vb);
}

TEST(releases_of_distributions_are_read)
{
	struct version v = parse("6.1.76-1-amd64");

	CHECK_EQ(v.major, 6);
	CHECK_EQ(v.minor, 1);
	CHECK_EQ(v.patch, 76);
	CHECK_EQ(parse("5.15").patch, 0);
	CHECK_EQ(parse("6.8-rc1").minor, 8);
	CHECK_EQ(parse("4.4.0.x").patch, 0);
	CHECK_EQ(parse("5.10.16.3-microsoft-standard-WSL2").patch, 16);
}

TEST(what_is_no_version_is_refused_and_the_output_left_alone)
{
	static const char *const bad[] = { "", "6", "6.", ".1", "six.one", " 6.1", "-6.1", "6.-1",
		"99999.1", "6.1.99999999999999999999" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct version v = { 7, 7, 7 };

		CHECK_EQ(version_parse(bad[i], &v), -EINVAL);
		CHECK_EQ(v.major, 7);
	}
}

TEST(versions_are_compared_as_numbers)
{
	CHECK(compare("5.9", "5.10") < 0);
	CHECK(compare("5.10.102", "5.10.99") > 0);
	CHECK(compare("6.0", "5.99.99") > 0);
	CHECK(compare("5.12.0", "5.12") == 0);
}

TEST(the_patch_level_comes_from_where_the_distribution_puts_it)
{
	struct version v = { 0 };

	CHECK_EQ(version_of_kernel(
			 "5.10.0-11-amd64", "#1 SMP Debian 5.10.92-2 (2022-02-28)", "", &v),
		0);
	CHECK_EQ(v.patch, 92);
	CHECK_EQ(version_of_kernel("5.15.0-91-generic", "#101-Ubuntu SMP",
			 "Ubuntu 5.15.0-91.101-generic 5.15.131", &v),
		0);
	CHECK_EQ(v.patch, 131);
	/* an image whose kernel is not that of its distribution */
	CHECK_EQ(version_of_kernel("6.6.1", "#1 SMP Debian 5.10.92-2", "Ubuntu x 5.15.1", &v), 0);
	CHECK_EQ(v.minor, 6);
	CHECK_EQ(v.patch, 1);
	CHECK_EQ(version_of_kernel("unknown", "", "", &v), -EINVAL);
}

static bool is_flawed(const char *text, const char *name)
{
	struct version v = parse(text);
	char names[512];

	(void)version_page_cache_flaws(&v, names, sizeof(names));
	return strstr(names, name);
}

TEST(dirty_pipe_is_known_by_its_branches)
{
	static const struct {
		const char *version;
		bool flawed;
	} rows[] = {
		{ "5.7.19", false },
		{ "5.8", true },
		{ "5.10.101", true },
		{ "5.10.102", false },
		{ "5.15.24", true },
		{ "5.15.25", false },
		{ "5.16.10", true },
		{ "5.16.11", false },
		{ "5.14.21", true },
		{ "5.17", false },
		{ "6.1.0", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_EQ(is_flawed(rows[i].version, "Dirty Pipe"), rows[i].flawed);
}

TEST(later_flaws_are_known_and_counted)
{
	static const char *const good[] = { "6.1.172", "6.6.139", "6.12.88", "6.18.29", "7.0.6",
		"7.1", "8.0" };
	char names[512];

	CHECK(is_flawed("6.18.21", "Copy Fail"));
	CHECK(!is_flawed("6.18.22", "Copy Fail"));
	CHECK(is_flawed("6.18.22", "Dirty Frag"));
	CHECK(is_flawed("6.17.9", "Copy Fail")); /* a branch that ended before the fix */
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct version v = parse(good[i]);

		CHECK_EQ(version_page_cache_flaws(&v, names, sizeof(names)), 0);
		CHECK_STR(names, "");
	}
}

TEST(a_list_that_does_not_fit_is_cut_and_terminated)
{
	struct version v = parse("5.10.1");
	char names[8];

	CHECK_EQ(version_page_cache_flaws(&v, names, sizeof(names)), 3);
	CHECK(memchr(names, '\0', sizeof(names)));
}

TESTS(UNIT(releases_of_distributions_are_read),
	UNIT(what_is_no_version_is_refused_and_the_output_left_alone),
	UNIT(versions_are_compared_as_numbers),
	UNIT(the_patch_level_comes_from_where_the_distribution_puts_it),
	UNIT(dirty_pipe_is_known_by_its_branches), UNIT(later_flaws_are_known_and_counted),
	UNIT(a_list_that_does_not_fit_is_cut_and_terminated))
