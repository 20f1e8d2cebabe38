#include "mcp/names.h"

#include <stdio.h>

#include "base/json.h"
#include "core/problem.h"
#include "core/unknown.h"

#define NAMES_MAX 80u
#define PATH_SIZE 120u

/* Of the earlier interface. */
static const char *const ignored[] = { "idempotency_key", NULL };

static const struct unknown_hint hints[] = {
	{ "argv", "command" },
	{ "cmd", "command" },
	{ "name", "session_id" },
	{ "session", "session_id" },
	{ "source", "code" },
	{ "timeout", "limits.seconds" },
	{ 0 },
};

static void join(char ret[PATH_SIZE], const char *path, const char *name)
{
	(void)snprintf(ret, PATH_SIZE, "%s%s%s", path, *path ? "." : "", name);
}

/* Of an array, what its items are. */
static const json_t *object_of(const json_t *schema)
{
	const json_t *items = json_object_get(schema, "items");

	return items ? items : schema;
}

static void list_names(const json_t *schema, const char *path, json_t *ret)
{
	const char *name;
	json_t *of;

	json_object_foreach(json_object_get(object_of(schema), "properties"), name, of)
	{
		char whole[PATH_SIZE];

		join(whole, path, name);
		(void)json_array_append_new(ret, json_string(whole));
		list_names(of, whole, ret);
	}
}

static int check(const struct unknown_check *c, const json_t *schema, const json_t *value,
	const char *path, const char *shown, struct problem *problem);

static int check_items(const struct unknown_check *c, const json_t *schema, const json_t *value,
	const char *path, const char *shown, struct problem *problem)
{
	size_t i;
	const json_t *item;

	json_array_foreach(value, i, item)
	{
		char at[PATH_SIZE];

		(void)snprintf(at, sizeof(at), "%.80s[%zu]", shown, i);
		if (check(c, schema, item, path, at, problem) < 0)
			return -1;
	}
	return 0;
}

static int check(const struct unknown_check *c, const json_t *schema, const json_t *value,
	const char *path, const char *shown, struct problem *problem)
{
	const json_t *properties = json_object_get(schema, "properties");
	const char *name;
	json_t *of;

	if (json_is_array(value))
		return check_items(c, object_of(schema), value, path, shown, problem);
	if (!properties)
		return 0;
	if (unknown_members(c, value, path, shown, problem) < 0)
		return -1;
	json_object_foreach((json_t *)properties, name, of)
	{
		char whole[PATH_SIZE];
		char whole_shown[PATH_SIZE];

		join(whole, path, name);
		join(whole_shown, shown, name);
		if (check(c, of, json_object_get(value, name), whole, whole_shown, problem) < 0)
			return -1;
	}
	return 0;
}

int names_check(const json_t *schema, const json_t *arguments, bool warns, json_t *warnings,
	struct problem *problem)
{
	AUTO_JSON *list = json_array();
	const char *names[NAMES_MAX + 1] = { NULL };
	struct unknown_check c = {
		.names = names,
		.ignored = ignored,
		.hints = hints,
		.warns = warns,
		.warnings = warnings,
	};

	list_names(schema, "", list);
	for (size_t i = 0; i < json_array_size(list) && i < NAMES_MAX; i++)
		names[i] = json_string_value(json_array_get(list, i));
	return check(&c, schema, arguments, "", "", problem);
}

json_t *names_known(const json_t *schema, json_t *value)
{
	const json_t *properties = json_object_get(schema, "properties");
	const char *name;
	json_t *of;

	if (!json_is_object(value) || !properties)
		return json_incref(value);
	json_t *kept = json_object();
	json_object_foreach((json_t *)properties, name, of)
	{
		json_t *member = json_object_get(value, name);

		if (member)
			(void)json_object_set_new(kept, name, names_known(of, member));
	}
	return kept;
}
