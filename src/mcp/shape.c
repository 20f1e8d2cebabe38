#include "mcp/shape.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"

#define PATH_MAX_SHOWN 120u

static int check(const json_t *schema, const json_t *value, const char *path, struct err *err);

static bool is_whole(const json_t *v)
{
	double d = json_real_value(v);

	return json_is_integer(v) ||
	       (json_is_real(v) && d > -9e15 && d < 9e15 && d == (double)(long long)d);
}

static bool is_type(const json_t *v, const char *type)
{
	if (streq(type, "integer"))
		return is_whole(v);
	static const struct {
		const char *name;
		json_type types[2];
	} kinds[] = {
		{ "object", { JSON_OBJECT, JSON_OBJECT } },
		{ "array", { JSON_ARRAY, JSON_ARRAY } },
		{ "string", { JSON_STRING, JSON_STRING } },
		{ "number", { JSON_INTEGER, JSON_REAL } },
		{ "boolean", { JSON_TRUE, JSON_FALSE } },
		{ "null", { JSON_NULL, JSON_NULL } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (streq(kinds[i].name, type))
			return json_typeof(v) == kinds[i].types[0] ||
			       json_typeof(v) == kinds[i].types[1];
	}
	return false;
}

static int wrong(struct err *err, const char *path, const char *what)
{
	return err_set(err, -EINVAL, "%s %s", path[0] ? path : "the arguments", what);
}

static int check_type(const json_t *type, const json_t *v, const char *path, struct err *err)
{
	char what[120] = "must be";
	size_t i;
	const json_t *item;

	if (json_is_string(type)) {
		(void)snprintf(what, sizeof(what), "must be of type %s", json_string_value(type));
		return is_type(v, json_string_value(type)) ? 0 : wrong(err, path, what);
	}
	json_array_foreach(type, i, item)
	{
		size_t n = strlen(what);

		if (is_type(v, json_string_value(item)))
			return 0;
		(void)snprintf(what + n, sizeof(what) - n, "%s %s", i ? " or" : "",
			json_string_value(item));
	}
	return type ? wrong(err, path, what) : 0;
}

static int check_enum(const json_t *words, const json_t *v, const char *path, struct err *err)
{
	char what[200] = "must be one of";
	size_t i;
	const json_t *item;

	json_array_foreach(words, i, item)
	{
		size_t n = strlen(what);

		if (json_equal(item, v))
			return 0;
		(void)snprintf(
			what + n, sizeof(what) - n, "%s %s", i ? "," : "", json_string_value(item));
	}
	return words ? wrong(err, path, what) : 0;
}

/* Keywords that compare one number of the value with one of the schema. */
static double measure(const json_t *v, char of)
{
	if (of == 'n')
		return json_number_value(v);
	if (of == 's')
		return (double)json_string_length(v);
	return of == 'a' ? (double)json_array_size(v) : (double)json_object_size(v);
}

static const struct {
	const char *keyword;
	char of; /* n: the number itself, s: bytes of a text, a: items, o: members */
	bool is_most;
	const char *words;
} bounds[] = {
	{ "minimum", 'n', false, "must be at least" },
	{ "maximum", 'n', true, "must be at most" },
	{ "minLength", 's', false, "must have a length of at least" },
	{ "maxLength", 's', true, "must have a length of at most" },
	{ "minItems", 'a', false, "must have this many items or more:" },
	{ "maxItems", 'a', true, "must have this many items or less:" },
	{ "maxProperties", 'o', true, "must have this many members or less:" },
};

static bool is_of(const json_t *v, char of)
{
	return (of == 'n' && json_is_number(v)) || (of == 's' && json_is_string(v)) ||
	       (of == 'a' && json_is_array(v)) || (of == 'o' && json_is_object(v));
}

static int check_bounds(const json_t *schema, const json_t *v, const char *path, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		const json_t *bound = json_object_get(schema, bounds[i].keyword);
		char what[120];

		if (!bound || !is_of(v, bounds[i].of))
			continue;
		double n = measure(v, bounds[i].of);
		double limit = json_number_value(bound);
		if (bounds[i].is_most ? n <= limit : n >= limit)
			continue;
		(void)snprintf(what, sizeof(what), "%s %.15g", bounds[i].words, limit);
		return wrong(err, path, what);
	}
	return 0;
}

/* A name of ours as it is, one of a stranger so that it can be shown. */
static void join(char *to, size_t size, const char *path, const char *name)
{
	(void)snprintf(to, size, "%s%s%.60s", path, path[0] ? "." : "", name);
}

static int check_required(const json_t *schema, const json_t *v, const char *path, struct err *err)
{
	const json_t *names = json_object_get(schema, "required");
	size_t i;
	const json_t *name;

	json_array_foreach(names, i, name)
	{
		char what[120];

		if (json_object_get(v, json_string_value(name)))
			continue;
		(void)snprintf(what, sizeof(what), "must have %.80s", json_string_value(name));
		return wrong(err, path, what);
	}
	return 0;
}

static int check_members(const json_t *schema, const json_t *v, const char *path, struct err *err)
{
	const json_t *known = json_object_get(schema, "properties");
	bool is_open = !json_is_false(json_object_get(schema, "additionalProperties"));
	const json_t *other = json_object_get(schema, "additionalProperties");
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)v, name, value)
	{
		const json_t *of = json_object_get(known, name);
		char at[PATH_MAX_SHOWN];

		join(at, sizeof(at), path, of ? name : quote(name).text);
		if (!of && !is_open)
			return wrong(err, at, "is not known here");
		if (!of && json_is_object(other))
			of = other;
		int r = of ? check(of, value, at, err) : 0;
		if (r < 0)
			return r;
	}
	return check_required(schema, v, path, err);
}

static int check_items(const json_t *schema, const json_t *v, const char *path, struct err *err)
{
	const json_t *of = json_object_get(schema, "items");
	size_t i;
	const json_t *item;

	if (!of)
		return 0;
	json_array_foreach(v, i, item)
	{
		char at[PATH_MAX_SHOWN];

		(void)snprintf(at, sizeof(at), "%.80s[%zu]", path, i);
		int r = check(of, item, at, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What of a choice is not there, as "a and b": how many. */
static size_t list_missing(const json_t *choice, const json_t *v, char *text, size_t size)
{
	const json_t *names = json_object_get(choice, "required");
	size_t n = 0;
	size_t i;
	const json_t *name;

	json_array_foreach(names, i, name)
	{
		size_t used = strlen(text);

		if (json_object_get(v, json_string_value(name)))
			continue;
		(void)snprintf(text + used, size - used, "%s%s", n > 0 ? " and " : "",
			json_string_value(name));
		n++;
	}
	return n;
}

/* Those that lack least are what was meant. */
static int wrong_choice(const json_t *choices, const json_t *v, const char *path, struct err *err)
{
	char what[200] = "";
	size_t least = SIZE_MAX;
	size_t i;
	const json_t *choice;

	json_array_foreach(choices, i, choice)
	{
		char missing[80] = "";
		size_t n = list_missing(choice, v, missing, sizeof(missing));
		size_t used = n == least ? strlen(what) : 0;

		if (n > least)
			continue;
		(void)snprintf(what + used, sizeof(what) - used, "%s%s",
			n == least ? ", or " : "must have ", missing);
		least = n;
	}
	return wrong(err, path, what);
}

/* Exactly one of them. */
static int check_one_of(const json_t *choices, const json_t *v, const char *path, struct err *err)
{
	size_t n_fit = 0;
	size_t i;
	const json_t *choice;

	json_array_foreach(choices, i, choice) n_fit += check(choice, v, path, NULL) == 0;
	if (!choices || n_fit == 1)
		return 0;
	return n_fit == 0 ? wrong_choice(choices, v, path, err)
			  : wrong(err, path, "say two things that exclude each other");
}

static int check(const json_t *schema, const json_t *v, const char *path, struct err *err)
{
	int r = check_type(json_object_get(schema, "type"), v, path, err);

	if (r == 0)
		r = check_enum(json_object_get(schema, "enum"), v, path, err);
	if (r == 0)
		r = check_bounds(schema, v, path, err);
	if (r == 0 && json_is_object(v))
		r = check_members(schema, v, path, err);
	if (r == 0 && json_is_array(v))
		r = check_items(schema, v, path, err);
	if (r == 0)
		r = check_one_of(json_object_get(schema, "oneOf"), v, path, err);
	return r;
}

int shape_check(const json_t *schema, const json_t *value, struct err *err)
{
	return check(schema, value, "", err);
}

json_t *shape_without_nulls(const json_t *schema, json_t *value)
{
	const json_t *known = json_object_get(schema, "properties");
	const char *name;
	json_t *item;

	if (!json_is_object(value) || !known)
		return json_incref(value);
	json_t *kept = json_object();
	json_object_foreach(value, name, item)
	{
		const json_t *of = json_object_get(known, name);

		if (!of)
			(void)json_object_set(kept, name, item);
		else if (!json_is_null(item))
			(void)json_object_set_new(kept, name, shape_without_nulls(of, item));
	}
	return kept;
}
