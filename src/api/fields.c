#include "api/fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/settings.h"
#include "core/unknown.h"

#define QUERY_NAMES_MAX 24u
#define QUERY_TEXT_MAX  320u

/* Answers with the problem, if there is one; else what was found to warn of is kept for the
 * answer. Takes the warnings. */
static int end_check(struct exchange *x, int r, struct problem *problem, json_t *warnings)
{
	if (r < 0)
		reply_problem(x, problem);
	else if (json_array_size(warnings) > 0)
		api_warn(x, warnings);
	problem_fini(problem);
	json_decref(warnings);
	return r < 0 ? -EINVAL : 0;
}

/* The words of `list`, which are cut apart in `text`. */
static void split(const char *list, char text[QUERY_TEXT_MAX], const char *ret[QUERY_NAMES_MAX + 1])
{
	char *rest = text;
	size_t n = 0;

	(void)snprintf(text, QUERY_TEXT_MAX, "%s", list);
	for (char *word; n < QUERY_NAMES_MAX && (word = strsep(&rest, " "));)
		ret[n++] = word;
	ret[n] = NULL;
}

int fields_check_parameters(struct exchange *x, const char *const *names)
{
	struct problem problem = { 0 };
	struct unknown_check c = {
		.names = names,
		.warns = api_of(x)->settings->unknown_warns,
		.warnings = json_array(),
	};
	const char *name;
	const char *value;
	int r = 0;

	for (size_t i = 0; r == 0 && exchange_query_at(x, i, &name, &value); i++)
		r = unknown_name(&c, "parameter", name, name, &problem);
	problem.place = PROBLEM_IN_QUERY;
	return end_check(x, r, &problem, c.warnings);
}

int fields_check_query(struct exchange *x, const struct route *route)
{
	const char *names[QUERY_NAMES_MAX + 1];
	char text[QUERY_TEXT_MAX];

	if (!route->query)
		return 0;
	split(route->query, text, names);
	return fields_check_parameters(x, names);
}

static bool has_members(const char *const *names, const char *object)
{
	for (; *names; names++) {
		const char *rest = str_after(*names, object);

		if (rest && *rest == '.')
			return true;
	}
	return false;
}

int fields_check_body(struct exchange *x, const json_t *body, const char *const *names)
{
	struct problem problem = { 0 };
	struct unknown_check c = {
		.names = names,
		.warns = api_of(x)->settings->unknown_warns,
		.warnings = json_array(),
	};
	int r = unknown_members(&c, body, "", "", &problem);

	for (size_t i = 0; r == 0 && names[i]; i++) {
		if (has_members(names, names[i]))
			r = unknown_members(
				&c, json_object_get(body, names[i]), names[i], names[i], &problem);
	}
	return end_check(x, r, &problem, c.warnings);
}

int fields_read_request(
	struct exchange *x, const json_t *body, enum request_kind kind, struct request *ret)
{
	struct problem problem = { 0 };
	bool warns = api_of(x)->settings->unknown_warns;
	json_t *warnings = json_array();
	int r = request_check_names(body, kind, warns, warnings, &problem);

	if (r == 0)
		r = request_parse(body, kind, ret, &problem);
	return end_check(x, r, &problem, warnings);
}
