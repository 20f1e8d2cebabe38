#include "image/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"

const char *config_architecture(void)
{
	static const struct {
		const char *machine;
		const char *name;
	} machines[] = {
		{ "x86_64", "amd64" },
		{ "aarch64", "arm64" },
		{ "armv7l", "arm" },
		{ "i686", "386" },
		{ "ppc64le", "ppc64le" },
		{ "riscv64", "riscv64" },
		{ "s390x", "s390x" },
	};
	struct utsname u;

	if (uname(&u) < 0)
		return "unknown";
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		if (streq(u.machine, machines[i].machine))
			return machines[i].name;
	}
	return "unknown";
}

static int parse_diff_ids(const json_t *json, struct config *c, struct err *err)
{
	const json_t *ids = json_object_get(json_object_get(json, "rootfs"), "diff_ids");
	size_t i;
	const json_t *id;

	if (!json_is_array(ids) || json_array_size(ids) > OCI_LAYERS_MAX)
		return err_set(err, -EBADMSG,
			"the configuration has no list of at most %u diff_ids", OCI_LAYERS_MAX);
	json_array_foreach(ids, i, id)
	{
		const char *text = json_string_value(id);

		int r = digest_parse(text ? text : "", "diff_ids", c->diff_ids[i], err);
		if (r < 0)
			return r;
	}
	c->n_diff_ids = json_array_size(ids);
	return 0;
}

static int parse_platform(const json_t *json, struct config *c, struct err *err)
{
	const char *os = json_string_value(json_object_get(json, "os"));
	const char *arch = json_string_value(json_object_get(json, "architecture"));

	if (!arch || !*arch || strlen(arch) >= sizeof(c->architecture) ||
		arch[strspn(arch, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return err_set(err, -EBADMSG, "the configuration does not say its architecture");
	if (os && !streq(os, "linux"))
		return err_set(err, -ENOTSUP, "the image is for %s, not for linux", quote(os).text);
	(void)snprintf(c->architecture, sizeof(c->architecture), "%s", arch);
	return 0;
}

static int copy_list(const json_t *from, const char *key, json_t *to, struct err *err)
{
	const json_t *list = json_object_get(from, key);
	size_t i;
	const json_t *item;

	if (!list || json_is_null(list))
		return json_object_set_new(to, key, json_array());
	if (!json_is_array(list) || json_array_size(list) > CONFIG_STRINGS_MAX)
		return err_set(err, -EBADMSG, "%s is not a list of at most %u strings", key,
			CONFIG_STRINGS_MAX);
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			return err_set(err, -EBADMSG, "%s holds something else than strings", key);
	}
	return json_object_set_new(to, key, json_deep_copy(list));
}

static int copy_string(const json_t *from, const char *key, json_t *to, struct err *err)
{
	const json_t *value = json_object_get(from, key);

	if (!value || json_is_null(value))
		return json_object_set_new(to, key, json_string(""));
	if (!json_is_string(value))
		return err_set(err, -EBADMSG, "%s is not a string", key);
	return json_object_set_new(to, key, json_deep_copy(value));
}

static int check_env(const json_t *env, struct err *err)
{
	size_t i;
	const json_t *item;

	json_array_foreach(env, i, item)
	{
		const char *text = json_string_value(item);

		if (!strchr(text, '=') || text[0] == '=')
			return err_set(err, -EBADMSG, "Env holds %s, which is not NAME=value",
				quote(text).text);
	}
	return 0;
}

/* What the image says about running it. */
static const struct {
	const char *key;
	int (*copy)(const json_t *from, const char *key, json_t *to, struct err *err);
} fields[] = {
	{ "Env", copy_list },
	{ "Entrypoint", copy_list },
	{ "Cmd", copy_list },
	{ "WorkingDir", copy_string },
	{ "User", copy_string },
};

static int parse_run(const json_t *from, json_t *to, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int r = fields[i].copy(from, fields[i].key, to, err);
		if (r == -1) /* jansson's only code */
			return err_set(err, -ENOMEM, "no memory for the configuration");
		if (r < 0)
			return r;
	}
	return check_env(json_object_get(to, "Env"), err);
}

int config_parse(const json_t *json, struct config *ret, struct err *err)
{
	if (!json_is_object(json))
		return err_set(err, -EBADMSG, "the configuration is not an object");
	int r = parse_platform(json, ret, err);
	if (r == 0)
		r = parse_diff_ids(json, ret, err);
	if (r < 0)
		return r;
	json_t *run = json_object();
	r = parse_run(json_object_get(json, "config"), run, err);
	if (r < 0) {
		json_decref(run);
		return r;
	}
	ret->run = run;
	return 0;
}

void config_fini(struct config *c)
{
	json_decref(c->run);
	c->run = NULL;
}
