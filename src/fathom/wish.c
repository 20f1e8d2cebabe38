#include "fathom/wish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "fathom/fathom_message.h"
#include "lang/lang.h"

#define CPU_MIN 0.01 /* of a core: the least that a box can be told */

static json_t *source_of(const struct fathom_message *m, const struct lang *l)
{
	size_t size = strlen(m->code);
	size_t room = BASE64_TEXT_SIZE(size);
	AUTO_FREE char *text = xcalloc(1, room);

	(void)base64_encode(m->code, size, text);
	json_t *files = json_pack("[{s:s,s:s}]", "path", l->source, "content_b64", text);
	explicit_bzero(text, room);
	return files;
}

static json_t *command_of(const struct fathom_message *m, const struct lang *l, const char *image)
{
	json_t *list = json_array();
	char program[256];

	for (size_t i = 0; l->argv[i]; i++)
		(void)json_array_append_new(list, json_string(l->argv[i]));
	if (json_object_get(m->env, "PATH"))
		(void)json_array_set_new(
			list, 0, json_string(lang_program(l, image, program, sizeof(program))));
	return list;
}

/* Those of the language, and then those of the client, who may want it otherwise. */
static json_t *env_of(const struct fathom_message *m, const struct lang *l)
{
	json_t *env = json_object();
	AUTO_JSON *own = m->env ? json_deep_copy(m->env) : NULL;

	for (size_t i = 0; l->env[i]; i++) {
		const char *value = strchr(l->env[i], '=') + 1;
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(value - l->env[i] - 1), l->env[i]);
		(void)json_object_set_new(env, name, json_string(value));
	}
	if (own)
		(void)json_object_update(env, own);
	return env;
}

static double cpu_of(const struct fathom_message *m)
{
	double cpu = (double)m->cpu_shares / WISH_SHARES_PER_CORE;

	return cpu > CPU_MIN ? cpu : CPU_MIN;
}

json_t *wish_make(const struct fathom_message *m, const struct lang *l, const char *image)
{
	json_t *body = json_object();

	(void)json_object_set_new(body, "base_image", json_string(image));
	(void)json_object_set_new(body, "command", command_of(m, l, image));
	(void)json_object_set_new(body, "files", source_of(m, l));
	(void)json_object_set_new(body, "env", env_of(m, l));
	(void)json_object_set_new(body, "timeout_ms", json_integer((json_int_t)m->timeout_ms));
	(void)json_object_set_new(
		body, "max_output_bytes", json_integer((json_int_t)m->max_output_bytes));
	(void)json_object_set_new(body, "resources",
		json_pack("{s:f,s:I}", "cpu", cpu_of(m), "memory_mb", (json_int_t)m->memory_mb));
	(void)json_object_set_new(
		body, "labels", json_pack("{s:s,s:s}", "door", "fathom", "execution_id", m->id));
	if (m->input)
		(void)json_object_set_new(body, "stdin", json_string(m->input));
	return body;
}
