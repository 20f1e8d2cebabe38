#include "box/profile.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "box/compile.h"
#include "box/schema.h"

#define ERRNO_MAX 4095 /* what a system call can return as an error */
#define ARGS_MAX  6u

/* clang-format off */
static const struct field profile_fields[] = {
	{ "comment",         JSON_STRING },
	{ "defaultAction",   JSON_STRING, true },
	{ "defaultErrnoRet", JSON_INTEGER },
	{ "architectures",   JSON_ARRAY },
	{ "archMap",         JSON_ARRAY },
	{ "flags",           JSON_ARRAY },
	{ "syscalls",        JSON_ARRAY,  true },
	{ 0 },
};

static const struct field arch_fields[] = {
	{ "architecture",     JSON_STRING, true },
	{ "subArchitectures", JSON_ARRAY },
	{ 0 },
};

static const struct field rule_fields[] = {
	{ "comment",  JSON_STRING },
	{ "names",    JSON_ARRAY,  true },
	{ "action",   JSON_STRING, true },
	{ "errnoRet", JSON_INTEGER },
	{ "args",     JSON_ARRAY },
	{ "includes", JSON_OBJECT },
	{ "excludes", JSON_OBJECT },
	{ 0 },
};

static const struct field arg_fields[] = {
	{ "index",    JSON_INTEGER, true },
	{ "value",    JSON_INTEGER, true },
	{ "valueTwo", JSON_INTEGER },
	{ "op",       JSON_STRING,  true },
	{ 0 },
};

static const struct field when_fields[] = {
	{ "arches",    JSON_ARRAY },
	{ "caps",      JSON_ARRAY },
	{ "minKernel", JSON_STRING },
	{ 0 },
};

/* Actions without a supervisor to act; the errno is put in later. */
static const struct word actions[] = {
	{ "SCMP_ACT_ALLOW",        SCMP_ACT_ALLOW },
	{ "SCMP_ACT_ERRNO",        SCMP_ACT_ERRNO(0) },
	{ "SCMP_ACT_KILL",         SCMP_ACT_KILL_THREAD },
	{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS },
	{ "SCMP_ACT_KILL_THREAD",  SCMP_ACT_KILL_THREAD },
	{ "SCMP_ACT_LOG",          SCMP_ACT_LOG },
	{ "SCMP_ACT_TRAP",         SCMP_ACT_TRAP },
	{ 0 },
};

static const struct word ops[] = {
	{ "SCMP_CMP_EQ",        SCMP_CMP_EQ },
	{ "SCMP_CMP_GE",        SCMP_CMP_GE },
	{ "SCMP_CMP_GT",        SCMP_CMP_GT },
	{ "SCMP_CMP_LE",        SCMP_CMP_LE },
	{ "SCMP_CMP_LT",        SCMP_CMP_LT },
	{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
	{ "SCMP_CMP_NE",        SCMP_CMP_NE },
	{ 0 },
};

static const struct {
	uint32_t native;
	const char *token; /* in archMap and architectures */
	const char *arch;  /* in includes and excludes */
} machines[] = {
	{ SCMP_ARCH_X86_64,  "SCMP_ARCH_X86_64",  "amd64" },
	{ SCMP_ARCH_AARCH64, "SCMP_ARCH_AARCH64", "arm64" },
	{ SCMP_ARCH_RISCV64, "SCMP_ARCH_RISCV64", "riscv64" },
};
/* clang-format on */

/* The action in field `word` with the errno in field `number`, EPERM if it has none. */
static int get_action(json_t *object, const char *word, const char *number, const struct place *at,
	uint32_t *ret, struct err *err)
{
	struct place word_at = place_field(at, word);
	struct place number_at = place_field(at, number);
	const char *text = json_string_value(json_object_get(object, word));
	bool has_number = json_is_integer(json_object_get(object, number));
	uint32_t action = 0;
	uint64_t code = 0;
	int r = schema_parse_word(text, actions, &word_at, &action, err);

	if (r == 0)
		r = schema_get_u64(object, number, ERRNO_MAX, at, &code, err);
	if (r < 0)
		return r;
	if (action == SCMP_ACT_ERRNO(0))
		action = SCMP_ACT_ERRNO(has_number ? (uint32_t)code : EPERM);
	else if (has_number)
		return err_set(err, -EINVAL, "%s is given, but %s is not SCMP_ACT_ERRNO",
			number_at.text, word_at.text);
	*ret = action;
	return 0;
}

/* This machine, as profiles name it. */
struct machine {
	const char *token;
	const char *arch;
	uint64_t kernel; /* see parse_kernel() */
};

/* "4.8" as a number that compares. `*ret_rest` is what stands behind. */
static int parse_kernel(const char *text, uint64_t *ret, const char **ret_rest)
{
	char *end = NULL;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	unsigned long major = strtoul(text, &end, 10);
	if (major > UINT16_MAX || end[0] != '.' || !isdigit((unsigned char)end[1]))
		return -EINVAL;
	unsigned long minor = strtoul(end + 1, &end, 10);
	if (minor > UINT16_MAX)
		return -EINVAL;
	*ret = ((uint64_t)major << 16) | minor;
	*ret_rest = end;
	return 0;
}

static int get_machine(struct machine *ret, struct err *err)
{
	struct utsname name;
	uint64_t kernel = 0;
	const char *rest = NULL;

	if (uname(&name) < 0)
		return err_errno(err, "uname");
	if (parse_kernel(name.release, &kernel, &rest) < 0)
		return err_set(err, -ENOTSUP, "kernel version '%s'", name.release);
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		if (machines[i].native != seccomp_arch_native())
			continue;
		*ret = (struct machine){ machines[i].token, machines[i].arch, kernel };
		return 0;
	}
	return err_set(err, -ENOTSUP, "no name for the architecture %s in profiles", name.machine);
}

/* One object of archMap: is this machine in it? */
static int check_arch(json_t *row, const struct machine *m, const struct place *at, bool *ret_has,
	struct err *err)
{
	int r = schema_check(row, arch_fields, at, err);

	if (r < 0)
		return r;
	json_t *subs = json_object_get(row, "subArchitectures");
	struct place subs_at = place_field(at, "subArchitectures");
	r = schema_check_strings(subs, &subs_at, err);
	if (r < 0)
		return r;
	const char *token = json_string_value(json_object_get(row, "architecture"));
	*ret_has |= streq(token, m->token) || schema_has_string(subs, m->token);
	return 0;
}

/* A profile that names architectures must name ours: its rules were written for
 * others, whose arguments may stand in another order. */
static int check_architectures(json_t *root, const struct machine *m, struct err *err)
{
	static const struct place at_list = { "architectures" };
	static const struct place at_map = { "archMap" };
	json_t *list = json_object_get(root, "architectures");
	json_t *map = json_object_get(root, "archMap");
	size_t i;
	json_t *row;
	int r = schema_check_strings(list, &at_list, err);

	if (r < 0)
		return r;
	if (json_array_size(list) == 0 && json_array_size(map) == 0)
		return 0;
	bool has = schema_has_string(list, m->token);
	json_array_foreach(map, i, row)
	{
		struct place at = place_item(&at_map, i);

		r = check_arch(row, m, &at, &has, err);
		if (r < 0)
			return r;
	}
	return has ? 0 : err_set(err, -EINVAL, "it is for other machines: no %s in it", m->token);
}

/* Flags of the load itself: TSYNC is always on; see seccomp.h for the others. */
static int check_flags(json_t *flags, struct err *err)
{
	static const struct place at = { "flags" };
	size_t i;
	json_t *value;
	int r = schema_check_strings(flags, &at, err);

	if (r < 0)
		return r;
	json_array_foreach(flags, i, value)
	{
		if (!streq(json_string_value(value), "SECCOMP_FILTER_FLAG_TSYNC"))
			return err_set(err, -EINVAL, "flags[%zu]: '%.64s' is not supported", i,
				json_string_value(value));
	}
	return 0;
}

/* What an "includes" or "excludes" says about a process on this machine. */
struct when {
	bool has_arches, arch_matches;
	bool has_caps; /* never matches: the guest has none */
	bool has_kernel, kernel_matches;
};

static int parse_when(json_t *object, const struct machine *m, const struct place *at,
	struct when *ret, struct err *err)
{
	*ret = (struct when){ 0 };
	if (!object || json_is_null(object))
		return 0;
	int r = schema_check(object, when_fields, at, err);
	if (r < 0)
		return r;

	json_t *arches = json_object_get(object, "arches");
	json_t *caps = json_object_get(object, "caps");
	const char *kernel = json_string_value(json_object_get(object, "minKernel"));
	struct place arches_at = place_field(at, "arches");
	struct place caps_at = place_field(at, "caps");
	r = schema_check_strings(arches, &arches_at, err);
	if (r == 0)
		r = schema_check_strings(caps, &caps_at, err);
	if (r < 0)
		return r;
	ret->has_arches = json_array_size(arches) > 0;
	ret->arch_matches = schema_has_string(arches, m->arch);
	ret->has_caps = json_array_size(caps) > 0;
	if (!kernel)
		return 0;

	uint64_t wanted = 0;
	const char *rest = NULL;
	if (parse_kernel(kernel, &wanted, &rest) < 0 || *rest)
		return err_set(
			err, -EINVAL, "%s.minKernel: '%.32s' is not like 4.8", at->text, kernel);
	ret->has_kernel = true;
	ret->kernel_matches = m->kernel >= wanted;
	return 0;
}

/* Does a rule hold here? Includes must all match, and no exclude may. */
static int parse_applies(
	json_t *rule, const struct machine *m, const struct place *at, bool *ret, struct err *err)
{
	struct when in = { 0 };
	struct when ex = { 0 };
	struct place in_at = place_field(at, "includes");
	struct place ex_at = place_field(at, "excludes");
	int r = parse_when(json_object_get(rule, "includes"), m, &in_at, &in, err);

	if (r == 0)
		r = parse_when(json_object_get(rule, "excludes"), m, &ex_at, &ex, err);
	if (r < 0)
		return r;
	bool included = !in.has_caps && (!in.has_arches || in.arch_matches) &&
			(!in.has_kernel || in.kernel_matches);
	bool excluded = ex.arch_matches || ex.kernel_matches;
	*ret = included && !excluded;
	return 0;
}

static int parse_arg(
	json_t *object, const struct place *at, struct scmp_arg_cmp *ret, struct err *err)
{
	uint64_t index = 0;
	uint64_t value = 0;
	uint64_t value_two = 0;
	uint32_t op = 0;
	int r = schema_check(object, arg_fields, at, err);

	if (r < 0)
		return r;
	struct place op_at = place_field(at, "op");
	r = schema_parse_word(
		json_string_value(json_object_get(object, "op")), ops, &op_at, &op, err);
	if (r == 0)
		r = schema_get_u64(object, "index", ARGS_MAX - 1, at, &index, err);
	if (r == 0)
		r = schema_get_u64(object, "value", INT64_MAX, at, &value, err);
	if (r == 0)
		r = schema_get_u64(object, "valueTwo", INT64_MAX, at, &value_two, err);
	if (r < 0)
		return r;
	*ret = (struct scmp_arg_cmp){ (unsigned)index, (enum scmp_compare)op, value, value_two };
	return 0;
}

static int parse_args(json_t *array, const struct place *at, struct scmp_arg_cmp *args,
	unsigned *ret_n, struct err *err)
{
	unsigned seen = 0;
	size_t i;
	json_t *value;

	if (json_array_size(array) > ARGS_MAX)
		return err_set(err, -EINVAL, "%s has more than %u conditions", at->text, ARGS_MAX);
	json_array_foreach(array, i, value)
	{
		struct place p = place_item(at, i);
		int r = parse_arg(value, &p, &args[i], err);

		if (r < 0)
			return r;
		if (seen & (1u << args[i].arg))
			return err_set(err, -EINVAL,
				"%s is about argument %u again: use another rule", p.text,
				args[i].arg);
		seen |= 1u << args[i].arg;
	}
	*ret_n = (unsigned)json_array_size(array);
	return 0;
}

static int add_rule(json_t *rule, struct compile *c, const struct machine *m,
	const struct place *at, struct err *err)
{
	struct scmp_arg_cmp args[ARGS_MAX];
	struct place names_at = place_field(at, "names");
	struct place args_at = place_field(at, "args");
	uint32_t action = 0;
	unsigned n_args = 0;
	bool applies = false;
	int r = schema_check(rule, rule_fields, at, err);

	if (r < 0)
		return r;
	json_t *names = json_object_get(rule, "names");
	r = schema_check_strings(names, &names_at, err);
	if (r == 0)
		r = get_action(rule, "action", "errnoRet", at, &action, err);
	if (r == 0)
		r = parse_args(json_object_get(rule, "args"), &args_at, args, &n_args, err);
	if (r == 0)
		r = parse_applies(rule, m, at, &applies, err);
	if (r < 0 || !applies)
		return r;

	size_t i;
	json_t *name;
	json_array_foreach(names, i, name)
	{
		r = compile_add(c, json_string_value(name), action, args, n_args, err);
		if (r < 0)
			return err_wrap(err, r, at->text);
	}
	return 0;
}

static int compile_root(json_t *root, struct seccomp_program *ret, struct err *err)
{
	static const struct place top = { "" };
	static const struct place at = { "syscalls" };
	CLEANUP(compile_freep) struct compile *c = NULL;
	struct machine m = { .token = "", .arch = "" };
	uint32_t default_action = 0;
	size_t i;
	json_t *rule;
	int r = schema_check(root, profile_fields, &top, err);

	if (r == 0)
		r = get_machine(&m, err);
	if (r == 0)
		r = check_architectures(root, &m, err);
	if (r == 0)
		r = check_flags(json_object_get(root, "flags"), err);
	if (r == 0)
		r = get_action(
			root, "defaultAction", "defaultErrnoRet", &top, &default_action, err);
	if (r == 0)
		r = compile_new(default_action, &c, err);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(root, "syscalls"), i, rule)
	{
		struct place p = place_item(&at, i);

		r = add_rule(rule, c, &m, &p, err);
		if (r < 0)
			return r;
	}
	return compile_finish(c, ret, err);
}

int profile_compile(const char *json, size_t size, struct seccomp_program *ret, struct err *err)
{
	json_error_t where;

	if (size > PROFILE_SIZE_MAX)
		return err_set(err, -E2BIG, "profile: larger than %zu bytes", PROFILE_SIZE_MAX);
	json_t *root = json_loadb(json, size, JSON_REJECT_DUPLICATES, &where);
	if (!root)
		return err_set(err, -EINVAL, "profile: line %d: %s", where.line, where.text);
	int r = compile_root(root, ret, err);
	json_decref(root);
	return r < 0 ? err_wrap(err, r, "profile") : 0;
}
