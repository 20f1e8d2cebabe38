#include "core/unknown.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/problem.h"

#define NAME_MAX_SHOWN 120u
#define NAMES_MAX      96u
#define CONTAINED_MIN  3u /* letters of a word that counts when it is part of another */
#define NEAR_MIN       4u /* ... and of one that may be misspelled: of fewer any two are alike */

static bool is_listed(const char *const *names, const char *name)
{
	for (; names && *names; names++) {
		if (streq(*names, name))
			return true;
	}
	return false;
}

static const char *last_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static const char *find_hint(const struct unknown_hint *hints, const char *given)
{
	for (; hints && hints->given; hints++) {
		if (streq(hints->given, given))
			return hints->meant;
	}
	return NULL;
}

static bool contains(const char *a, const char *b)
{
	bool is_long_enough = strlen(a) >= CONTAINED_MIN && strlen(b) >= CONTAINED_MIN;

	return is_long_enough && (strstr(a, b) || strstr(b, a));
}

/* Names beside which `given` stands: members of the same object, or all. */
static bool is_beside(const char *name, const char *given, bool of_all)
{
	size_t size = (size_t)(last_of(given) - given);

	return of_all || ((size_t)(last_of(name) - name) == size && memcmp(name, given, size) == 0);
}

static const char *find_near(const char *const *names, size_t n, const char *word)
{
	const char *last[NAMES_MAX] = { NULL };

	for (size_t i = 0; i < n; i++)
		last[i] = last_of(names[i]);
	const char *near = strlen(word) >= NEAR_MIN ? str_nearest(word, last, n) : NULL;
	for (size_t i = 0; near && i < n; i++) {
		if (last[i] == near)
			return names[i];
	}
	return NULL;
}

/* The same word, one that is misspelled, or one that is part of the other. */
static const char *find_like(const char *const *names, const char *given, bool of_all)
{
	const char *beside[NAMES_MAX];
	const char *word = last_of(given);
	size_t n = 0;

	for (; *names && n < NAMES_MAX; names++) {
		if (is_beside(*names, given, of_all))
			beside[n++] = *names;
	}
	for (size_t i = 0; i < n; i++) {
		if (streq(last_of(beside[i]), word))
			return beside[i];
	}
	const char *near = find_near(beside, n, word);
	for (size_t i = 0; !near && i < n; i++) {
		if (contains(last_of(beside[i]), word))
			near = beside[i];
	}
	return near;
}

const char *unknown_nearest(const struct unknown_check *c, const char *given)
{
	const char *meant = find_hint(c->hints, last_of(given));

	if (!meant)
		meant = find_like(c->names, given, false);
	if (!meant)
		meant = find_like(c->names, given, true);
	return meant && !streq(meant, given) ? meant : NULL;
}

/* "unknown field 'memory'; did you mean resources.memory_mb?" */
static void say_unknown(const struct unknown_check *c, const char *what, const char *name,
	const char *shown, char *ret, size_t size)
{
	const char *near = unknown_nearest(c, name);

	/* The path that such a message has was taken for a name. */
	if (is_listed(c->names, name) || is_listed(c->ignored, name)) {
		(void)snprintf(ret, size, "unknown %s %s: %s is a member of the object %.*s", what,
			quote(shown).text, last_of(name), (int)(last_of(name) - name - 1), name);
		return;
	}
	(void)snprintf(ret, size, "unknown %s %s%s%s%s", what, quote(shown).text,
		near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static void warn(const struct unknown_check *c, const char *text)
{
	if (json_array_size(c->warnings) < UNKNOWN_WARNINGS_MAX)
		(void)json_array_append_new(c->warnings, json_string(text));
}

/* What can be sent back in any case. */
static void make_plain(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			*text = '?';
	}
}

static int refuse(const struct unknown_check *c, const char *what, const char *name,
	const char *shown, struct problem *problem)
{
	char text[sizeof(problem->message)];

	say_unknown(c, what, name, shown, text, sizeof(text));
	if (c->warns) {
		warn(c, text);
		return 0;
	}
	(void)problem_set(problem, "invalid_request", "%s", text);
	(void)snprintf(text, NAME_MAX_SHOWN, "%s", shown);
	make_plain(text);
	problem_add(problem, "field", json_string(text));
	return -1;
}

int unknown_name(const struct unknown_check *c, const char *what, const char *name,
	const char *shown, struct problem *problem)
{
	char text[sizeof(problem->message)];

	if (is_listed(c->names, name))
		return 0;
	if (!is_listed(c->ignored, name))
		return refuse(c, what, name, shown, problem);
	(void)snprintf(text, sizeof(text), "%s %s means nothing here and was ignored", what,
		quote(shown).text);
	warn(c, text);
	return 0;
}

static void join(char ret[NAME_MAX_SHOWN], const char *path, const char *name)
{
	(void)snprintf(ret, NAME_MAX_SHOWN, "%s%s%s", path, *path ? "." : "", name);
}

int unknown_members(const struct unknown_check *c, const json_t *object, const char *path,
	const char *shown, struct problem *problem)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value)
	{
		char whole[NAME_MAX_SHOWN];
		char whole_shown[NAME_MAX_SHOWN];

		join(whole, path, name);
		join(whole_shown, shown, name);
		/* No member has a dot in its name: that would be the path of another one. */
		int r = strchr(name, '.') ? refuse(c, "field", whole, whole_shown, problem)
					  : unknown_name(c, "field", whole, whole_shown, problem);
		if (r < 0)
			return -1;
	}
	return 0;
}
