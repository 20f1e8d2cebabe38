#include "core/request_code.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/request_private.h"
#include "core/session.h"
#include "core/settings.h"
#include "lang/lang.h"

static const struct lang *find_language(
	const char *name, const char *image, struct problem *problem)
{
	const struct lang *l = lang_find(name);
	struct err err = { 0 };
	char list[128];

	if (!l) {
		lang_list(list, sizeof(list));
		(void)problem_field(
			problem, "language", "%.40s is not known, but %s", quote(name).text, list);
		return NULL;
	}
	/* Another image has what it has: there the program is looked for when it is executed. */
	if (streq(image, "host") && lang_check(l, &err) < 0) {
		(void)problem_field(problem, "language", "%s", err.text);
		return NULL;
	}
	return l;
}

static int check_size(const struct request *r, const struct settings *c, struct problem *problem)
{
	size_t size = strlen(r->code);

	if (size <= c->max_inline_bytes)
		return 0;
	(void)problem_set(problem, "payload_too_large",
		"code: it has %zu bytes, and %llu are allowed; put data into files", size,
		(unsigned long long)c->max_inline_bytes);
	problem_add(problem, "field", json_string("code"));
	problem_add(problem, "limit_bytes", json_integer((json_int_t)c->max_inline_bytes));
	return -1;
}

/* Those of the language, of the session, and then those that were sent. */
static json_t *env_of(const struct request *r, const struct lang *l, const struct session *session)
{
	json_t *env = json_object();
	AUTO_JSON *of_session =
		session && session->row.env ? json_loads(session->row.env, 0, NULL) : NULL;

	for (size_t i = 0; l->env[i]; i++) {
		const char *value = strchr(l->env[i], '=') + 1;
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(value - l->env[i] - 1), l->env[i]);
		(void)json_object_set_new(env, name, json_string(value));
	}
	if (r->env)
		(void)json_object_update(env, (json_t *)r->env);
	else if (of_session)
		(void)json_object_update(env, of_session);
	return env;
}

/* Which program runs the code does not depend on the PATH that the code is to have. */
static json_t *command_of(
	const struct request *r, const struct lang *l, const char *image, const json_t *env)
{
	json_t *command = json_array();
	char program[256];

	for (size_t i = 0; l->argv[i]; i++)
		(void)json_array_append_new(command, json_string(l->argv[i]));
	if (json_object_get(env, "PATH"))
		(void)json_array_set_new(
			command, 0, json_string(lang_program(l, image, program, sizeof(program))));
	if (r->args)
		(void)json_array_extend(command, (json_t *)r->args);
	return command;
}

static json_t *file_of(const char *path, const char *code)
{
	size_t size = strlen(code);
	AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(size));

	(void)base64_encode(code, size, text);
	return json_pack("{s:s,s:s}", "path", path, "content_b64", text);
}

/* NULL with a problem where the code's name is taken. */
static json_t *files_of(const struct request *r, const struct lang *l, struct problem *problem)
{
	json_t *files = r->files ? json_copy((json_t *)r->files) : json_array();
	size_t i;
	const json_t *item;

	json_array_foreach(r->files, i, item)
	{
		if (!streq(json_string_value(json_object_get(item, "path")), l->source))
			continue;
		(void)request_refuse_file(
			problem, i, "the code gets this name; call the file otherwise");
		json_decref(files);
		return NULL;
	}
	(void)json_array_append_new(files, file_of(l->source, r->code));
	return files;
}

static int replace(struct request *r, const json_t *body, struct problem *problem)
{
	struct request whole;

	if (request_parse(body, REQUEST_RUN, &whole, problem) < 0)
		return -1;
	request_fini(r);
	*r = whole;
	return 0;
}

int request_expand_code(struct request *r, const struct session *session, const struct settings *c,
	struct problem *problem)
{
	static const char *const gone[] = { "language", "code", "args" };
	const char *given = session ? session->row.base_image : r->base_image;
	const char *image = given ? given : "host";

	if (!r->code)
		return 0;
	const struct lang *l = find_language(r->language, image, problem);
	if (!l || check_size(r, c, problem) < 0)
		return -1;
	AUTO_JSON *files = files_of(r, l, problem);
	if (!files)
		return -1;
	AUTO_JSON *body = json_copy(r->body);
	AUTO_JSON *env = env_of(r, l, session);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		(void)json_object_del(body, gone[i]);
	(void)json_object_set_new(body, "command", command_of(r, l, image, env));
	(void)json_object_set(body, "files", files);
	(void)json_object_set(body, "env", env);
	if (!session)
		json_set_missing(body, "base_image", json_string(image));
	return replace(r, body, problem);
}
