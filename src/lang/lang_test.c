#include "lang/lang.h"

#include <string.h>

#include "base/str.h"
#include "lib/test.h"

TEST(languages_are_found_by_every_name)
{
	for (const struct lang *l = langs; l->name; l++) {
		CHECK(lang_find(l->name) == l);
		for (size_t i = 0; l->aliases[i]; i++)
			CHECK(lang_find(l->aliases[i]) == l); /* no name is taken twice */
	}
	CHECK(lang_find("cobol") == NULL);
	CHECK(lang_find("Python") == NULL);
	CHECK(lang_find("") == NULL);
}

TEST(every_language_is_whole)
{
	for (const struct lang *l = langs; l->name; l++) {
		char path[64];
		bool names_source = false;

		CHECK(*l->source && !strchr(l->source, '/'));
		/* A bare name: images keep their interpreters in different places. */
		CHECK(l->argv[0] && !strchr(l->argv[0], '/'));
		(void)snprintf(path, sizeof(path), "/workspace/%s", l->source);
		for (size_t i = 0; l->argv[i]; i++)
			names_source = names_source || streq(l->argv[i], path);
		CHECK(names_source);
		for (size_t i = 0; l->env[i]; i++)
			CHECK(strchr(l->env[i], '=') > l->env[i]);
	}
}

TEST(a_slip_is_noticed)
{
	CHECK_STR(lang_nearest("pyhton"), "python");
	CHECK_STR(lang_nearest("javascrpt"), "javascript");
	CHECK(lang_nearest("cobol") == NULL);
}

TESTS(UNIT(languages_are_found_by_every_name), UNIT(every_language_is_whole),
	UNIT(a_slip_is_noticed))
