#include "lang/lang.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
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
		CHECK(l->needs[0].name);
		for (size_t i = 0; l->needs[i].name; i++)
			CHECK(l->needs[i].package && *l->needs[i].package);
	}
}

static bool needs(const struct lang *l, const char *name)
{
	for (size_t i = 0; l->needs[i].name; i++) {
		if (streq(l->needs[i].name, name))
			return true;
	}
	return false;
}

TEST(what_is_executed_is_needed)
{
	for (const struct lang *l = langs; l->name; l++) {
		bool is_compiled = streq(l->argv[0], "sh") && strstr(l->argv[2], "exec perl");

		CHECK(needs(l, is_compiled ? "perl" : l->argv[0]));
	}
}

TEST(the_list_has_every_name_once)
{
	char text[256];
	char small[12];

	lang_list(text, sizeof(text));
	CHECK_STR(text, "python, javascript, shell, elixir, ruby, perl, lua, c, go and java");
	lang_list(small, sizeof(small));
	CHECK_STR(small, "python, jav");
}

TEST(one_that_is_not_here_says_what_to_install)
{
	struct err err = { 0 };
	const struct lang_need here[] = { { "sh", "dash" }, { "/usr/bin/env", "coreutils" },
		{ 0 } };
	const struct lang_need missing[] = { { "sh", "dash" }, { "no-such", "b-dev" }, { 0 } };
	const struct lang_need outside[] = { { "/etc/passwd", "base-passwd" }, { 0 } };
	struct lang l = { .name = "b", .needs = here };

	CHECK_EQ(lang_check(&l, &err), 0);
	CHECK_STR(err.text, "");
	l.needs = missing;
	CHECK_EQ(lang_check(&l, &err), -ENOENT);
	CHECK_STR(err.text, "b is known but not on this machine: no 'no-such' in /usr; install the "
			    "Debian package b-dev");
	/* It exists, but a box does not have it. */
	l.needs = outside;
	CHECK_EQ(lang_check(&l, NULL), -ENOENT);
}

TEST(programs_are_found_without_a_path)
{
	static const char *const none[] = { "no-such-program", NULL };
	const struct lang missing = { .name = "b", .argv = none };
	char path[256];
	char small[6];

	CHECK(lang_find_program(lang_find("shell"), path, sizeof(path)));
	CHECK_EQ(path[0], '/');
	CHECK_EQ(access(path, X_OK), 0);
	CHECK(!lang_find_program(lang_find("shell"), small, sizeof(small)));
	CHECK(!lang_find_program(&missing, path, sizeof(path)));
	CHECK_STR(lang_program(&missing, "host", path, sizeof(path)), "no-such-program");
	CHECK_STR(lang_program(lang_find("shell"), "mine", path, sizeof(path)), "sh");
	CHECK_EQ(lang_program(lang_find("shell"), "host", path, sizeof(path))[0], '/');
	CHECK_EQ(lang_program(lang_find("shell"), NULL, path, sizeof(path))[0], '/');
}

TEST(a_slip_is_noticed)
{
	CHECK_STR(lang_nearest("pyhton"), "python");
	CHECK_STR(lang_nearest("javascrpt"), "javascript");
	CHECK(lang_nearest("cobol") == NULL);
}

TESTS(UNIT(languages_are_found_by_every_name), UNIT(every_language_is_whole),
	UNIT(what_is_executed_is_needed), UNIT(the_list_has_every_name_once),
	UNIT(one_that_is_not_here_says_what_to_install), UNIT(programs_are_found_without_a_path),
	UNIT(a_slip_is_noticed))
