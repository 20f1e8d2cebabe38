#include "fathom/language.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "lang/lang.h"
#include "lib/test.h"

TEST(what_is_there_is_found_by_any_of_its_names)
{
	const struct lang *l = NULL;

	CHECK_EQ(language_find("shell", "host", &l, NULL), 0);
	CHECK_STR(l->name, "shell");
	CHECK_EQ(language_find("bash", "host", &l, NULL), 0);
	CHECK_STR(l->name, "shell");
}

TEST(what_is_not_is_refused_with_what_is)
{
	const struct lang *l = NULL;
	struct err err = { 0 };

	CHECK_EQ(language_find("rust2000", "host", &l, &err), -ENOENT);
	CHECK(strstr(err.text, "'rust2000'") && strstr(err.text, "shell"));
	CHECK_EQ(language_find("", "host", &l, &err), -ENOENT);
	CHECK_EQ(language_find("rust2000", "some-image", &l, &err), -ENOENT);
	CHECK(l == NULL);
}

/* Each language of the table is there or is not; another image is only asked when it is used. */
TEST(what_it_needs_must_be_there)
{
	for (const struct lang *l = langs; l->name; l++) {
		const struct lang *got = NULL;
		int r = lang_check(l, NULL);

		CHECK_EQ(language_find(l->name, "host", &got, NULL), r);
		CHECK(r < 0 ? got == NULL : got == l);
		CHECK_EQ(language_find(l->name, "some-image", &got, NULL), 0);
		CHECK(got == l);
	}
}

TESTS(UNIT(what_is_there_is_found_by_any_of_its_names), UNIT(what_is_not_is_refused_with_what_is),
	UNIT(what_it_needs_must_be_there))
