#include "probe/languages.h"

#include <string.h>

#include "base/str.h"
#include "lang/lang.h"
#include "lib/test.h"

static bool has_all(const struct lang *l)
{
	(void)l;
	return true;
}

static bool has_none(const struct lang *l)
{
	return !has_all(l);
}

static bool has_most(const struct lang *l)
{
	return !streq(l->name, "lua") && !streq(l->name, "go");
}

TEST(what_is_here_is_listed)
{
	struct finding f = { 0 };

	languages_report(has_all, &f);
	CHECK_EQ(f.state, PROBE_OK);
	for (const struct lang *l = langs; l->name; l++)
		CHECK(strstr(f.detail, l->name) != NULL);
	CHECK(f.fix == NULL);
}

TEST(what_is_missing_is_named_with_its_packages)
{
	struct finding f = { 0 };

	languages_report(has_most, &f);
	CHECK_EQ(f.state, PROBE_PARTIAL);
	CHECK(str_after(f.detail, "python, javascript, shell, ") != NULL);
	CHECK(strstr(f.detail, "; there is no lua, go") != NULL);
	CHECK_STR(f.fix, "sudo apt install lua5.4 golang-go perl-base");
}

TEST(nothing_at_all_fits_too)
{
	struct finding f = { 0 };

	languages_report(has_none, &f);
	CHECK_EQ(f.state, PROBE_MISSING);
	CHECK(str_after(f.detail, "there is no python, ") != NULL);
	for (const struct lang *l = langs; l->name; l++)
		CHECK(strstr(f.detail, l->name) && strstr(f.fix, l->needs[0].package));
}

TESTS(UNIT(what_is_here_is_listed), UNIT(what_is_missing_is_named_with_its_packages),
	UNIT(nothing_at_all_fits_too))
