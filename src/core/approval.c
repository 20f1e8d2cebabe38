#include "core/approval.h"

#include <string.h>

#include "base/json.h"
#include "core/run.h"
#include "core/utf8.h"

static void set(json_t *o, const char *name, json_t *value)
{
	(void)json_object_set_new(o, name, value);
}

/* At most `*left` bytes of an argument, without a character that would be cut. */
static json_t *argument_json(const json_t *argument, size_t *left)
{
	const char *text = json_string_value(argument);
	size_t size = json_string_length(argument);

	if (size > *left)
		size = *left - utf8_tail(text, *left);
	*left -= size;
	return json_stringn(text, size);
}

static void add_command(json_t *o, const json_t *command)
{
	json_t *list = json_array();
	size_t left = APPROVAL_COMMAND_MAX;
	size_t total = 0;
	size_t shown = 0;

	for (size_t i = 0; i < json_array_size(command); i++) {
		const json_t *argument = json_array_get(command, i);
		json_t *part = left > 0 ? argument_json(argument, &left) : NULL;

		total += json_string_length(argument);
		shown += json_string_length(part);
		if (part)
			(void)json_array_append_new(list, part);
	}
	set(o, "command", list);
	set(o, "command_bytes", json_integer((json_int_t)total));
	set(o, "command_truncated",
		json_boolean(shown < total || json_array_size(list) < json_array_size(command)));
}

static void add_files(json_t *o, const struct upload_inline *files, size_t n)
{
	json_t *list = json_array();
	size_t left = APPROVAL_PATHS_MAX;
	size_t n_shown = 0;

	for (; n_shown < n && n_shown < APPROVAL_FILES_MAX; n_shown++) {
		const struct upload_inline *file = &files[n_shown];
		size_t size = strlen(file->path);

		if (size > left)
			break;
		left -= size;
		(void)json_array_append_new(list,
			json_pack("{s:s,s:I}", "path", file->path, "size", (json_int_t)file->size));
	}
	set(o, "files", list);
	set(o, "files_omitted", json_integer((json_int_t)(n - n_shown)));
}

static json_t *names_json(const json_t *env)
{
	json_t *list = json_array();
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)env, name, value)
	{
		if (json_array_size(list) < APPROVAL_NAMES_MAX)
			(void)json_array_append_new(list, json_string(name));
	}
	return list;
}

json_t *approval_brief(const struct run *run)
{
	const struct request *r = &run->request;
	json_t *o = json_object();

	add_command(o, r->command);
	add_files(o, run->files, run->n_files);
	set(o, "git", r->git ? json_deep_copy(r->git) : json_null());
	set(o, "env_names", names_json(r->env));
	set(o, "stdin_bytes", json_integer(r->input ? (json_int_t)strlen(r->input) : 0));
	set(o, "interactive", json_boolean(r->interactive));
	set(o, "capture_patterns",
		r->capture_patterns ? json_deep_copy(r->capture_patterns) : json_array());
	set(o, "rule", json_text_or_null(run->policy.approval));
	set(o, "limits", run_json_limits(&run->policy));
	return o;
}
