#include "ipc/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "ipc/pack.h"

static const char *const facet_names[FACET_COUNT] = {
	[FACET_USER] = "user",
	[FACET_MOUNT] = "mount",
	[FACET_PID] = "pid",
	[FACET_NET] = "net",
	[FACET_IPC] = "ipc",
	[FACET_UTS] = "uts",
	[FACET_CGROUP] = "cgroup",
	[FACET_TIMEOUT] = "timeout",
	[FACET_MEMORY] = "memory",
	[FACET_CPU] = "cpu",
	[FACET_PIDS] = "pids",
	[FACET_WORKSPACE] = "workspace",
	[FACET_RLIMITS] = "rlimits",
	[FACET_CAPABILITIES] = "capabilities",
	[FACET_SECCOMP] = "seccomp",
	[FACET_LANDLOCK] = "landlock",
	[FACET_UID] = "uid",
};

/* The range of every limit, its default, and where it is. One row each: what the
 * wire carries, what is checked and what is assumed can not drift apart. */
static const struct limit_row {
	const char *name;
	size_t offset;
	uint64_t min;
	uint64_t max;
	uint64_t standard;
} limit_rows[] = {
#define LIMIT(field) #field, offsetof(struct limits, field)
	{ LIMIT(timeout_ms), 1, 7 * 24 * 3600 * UINT64_C(1000), 60000 },
	{ LIMIT(startup_ms), 1, 3600 * UINT64_C(1000), 20000 },
	{ LIMIT(grace_ms), 0, 600 * UINT64_C(1000), 5000 },
	{ LIMIT(memory_bytes), 4 << 20, UINT64_C(1) << 46, UINT64_C(1) << 30 },
	{ LIMIT(cpu_milli), SPEC_CPU_MIN, 1024 * 1000, 1000 },
	{ LIMIT(pids), 2, SPEC_PIDS_MAX, 256 },
	{ LIMIT(workspace_bytes), 64 << 10, UINT64_C(1) << 46, 256 << 20 },
	{ LIMIT(tmp_bytes), 64 << 10, UINT64_C(1) << 46, 64 << 20 },
	{ LIMIT(files), 16, 1 << 20, 1024 },
	{ LIMIT(processes), 2, 65536, 512 },
	{ LIMIT(capture_bytes), 0, UINT64_C(1) << 46, 32 << 20 },
#undef LIMIT
};

static uint64_t *limit_at(struct limits *limits, const struct limit_row *row)
{
	return (uint64_t *)((char *)limits + row->offset);
}

static uint64_t limit_value(const struct limits *limits, const struct limit_row *row)
{
	return *(const uint64_t *)((const char *)limits + row->offset);
}

const char *facet_name(enum facet f)
{
	return facet_names[f];
}

static int find_facet(const char *word, size_t n)
{
	for (int i = 0; i < FACET_COUNT; i++) {
		if (strlen(facet_names[i]) == n && strncmp(facet_names[i], word, n) == 0)
			return i;
	}
	return -ENOENT;
}

void facet_format(uint64_t mask, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; i < FACET_COUNT; i++) {
		if (!(mask & FACET_BIT(i)))
			continue;
		int n = snprintf(buf + used, size - used, "%s%s", used ? ", " : "",
			facet_name((enum facet)i));
		if (n < 0 || (size_t)n >= size - used)
			return;
		used += (size_t)n;
	}
}

int facet_parse_list(const char *text, uint64_t *ret_mask, struct err *err)
{
	uint64_t mask = 0;

	for (const char *p = text;; p++) {
		size_t n = strcspn(p, ",");
		int f = find_facet(p, n);
		char word[64];

		if (n == 3 && strncmp(p, "all", n) == 0) {
			mask |= FACET_ALL;
		} else if (f >= 0) {
			mask |= FACET_BIT(f);
		} else {
			(void)snprintf(word, sizeof(word), "%.*s", (int)n, p);
			const char *near = str_nearest(word, facet_names, FACET_COUNT);
			return err_set(err, -EINVAL,
				"'%s' is not a limit that can be required%s%s%s", word,
				near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
		}
		p += n;
		if (!*p)
			break;
	}
	*ret_mask = mask;
	return 0;
}

void spec_init(struct spec *s)
{
	*s = (struct spec){ .image = "host", .rows = 24, .columns = 80 };
	for (size_t i = 0; i < ARRAY_SIZE(limit_rows); i++)
		*limit_at(&s->limits, &limit_rows[i]) = limit_rows[i].standard;
}

bool spec_is_plain(const struct spec *s)
{
	struct spec standard;

	spec_init(&standard);
	return !s->tty && !s->workspace[0] &&
	       s->limits.workspace_bytes == standard.limits.workspace_bytes &&
	       s->limits.tmp_bytes == standard.limits.tmp_bytes;
}

static void free_strings(char **strings)
{
	for (size_t i = 0; strings && strings[i]; i++) {
		explicit_bzero(strings[i], strlen(strings[i]));
		free(strings[i]);
	}
	free(strings);
}

void spec_fini(struct spec *s)
{
	free_strings(s->argv);
	free_strings(s->env);
	free_strings(s->globs);
	free(s->cwd);
	s->argv = s->env = s->globs = NULL;
	s->cwd = NULL;
}

void spec_make_id(char id[RUN_ID_SIZE + 1])
{
	uint8_t bytes[RUN_ID_SIZE / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort(); /* the kernel gives that few bytes whole or not at all */
	str_hex(bytes, sizeof(bytes), id);
}

static void put_strings(struct put *p, char *const *strings)
{
	uint32_t n = 0;

	while (strings && strings[n])
		n++;
	put_u32(p, n);
	for (uint32_t i = 0; i < n; i++)
		put_str(p, strings[i]);
}

static char **get_strings(struct cur *c, uint32_t max)
{
	uint32_t n = cur_u32(c);

	if (n > max)
		c->bad = true;
	if (c->bad)
		return NULL;
	char **strings = xcalloc(n + 1, sizeof(*strings));
	for (uint32_t i = 0; i < n && !c->bad; i++)
		strings[i] = cur_str(c, SPEC_STRING_MAX);
	return strings;
}

void spec_put(const struct spec *s, struct put *p)
{
	put_str(p, s->id);
	put_str(p, s->image);
	put_strings(p, s->argv);
	put_strings(p, s->env);
	put_strings(p, s->globs);
	put_str(p, s->cwd ? s->cwd : "/workspace");
	for (size_t i = 0; i < ARRAY_SIZE(limit_rows); i++)
		put_u64(p, limit_value(&s->limits, &limit_rows[i]));
	put_u64(p, s->require);
	put_u8(p, s->tty);
	put_u32(p, s->rows);
	put_u32(p, s->columns);
	put_u8(p, s->takes_files);
	put_u8(p, s->lingers);
	put_str(p, s->workspace);
	put_u8(p, (uint8_t)s->deed);
	put_u8(p, s->clears);
	put_u8(p, s->lists);
	put_u8(p, s->digests);
	put_u8(p, s->talks);
	put_u8(p, s->deaf);
	put_u8(p, s->exec);
	put_str(p, s->change);
}

static uint16_t get_u16(struct cur *c)
{
	uint32_t v = cur_u32(c);

	if (v > UINT16_MAX)
		c->bad = true;
	return (uint16_t)v;
}

void spec_get(struct spec *s, struct cur *c)
{
	*s = (struct spec){ 0 };
	cur_str_into(c, s->id, sizeof(s->id));
	cur_str_into(c, s->image, sizeof(s->image));
	s->argv = get_strings(c, SPEC_STRINGS_MAX);
	s->env = get_strings(c, SPEC_STRINGS_MAX);
	s->globs = get_strings(c, SPEC_GLOBS_MAX);
	s->cwd = cur_str(c, SPEC_CWD_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(limit_rows); i++)
		*limit_at(&s->limits, &limit_rows[i]) = cur_u64(c);
	s->require = cur_u64_max(c, FACET_ALL);
	s->tty = cur_bool(c);
	s->rows = get_u16(c);
	s->columns = get_u16(c);
	s->takes_files = cur_bool(c);
	s->lingers = cur_bool(c);
	cur_str_into(c, s->workspace, sizeof(s->workspace));
	s->deed = (enum deed)cur_u8(c);
	s->clears = cur_bool(c);
	s->lists = cur_bool(c);
	s->digests = cur_bool(c);
	s->talks = cur_bool(c);
	s->deaf = cur_bool(c);
	s->exec = cur_bool(c);
	cur_str_into(c, s->change, sizeof(s->change));
}

static int check_env(char *const *env, struct err *err)
{
	for (size_t i = 0; env && env[i]; i++) {
		size_t n = strcspn(env[i], "=");

		/* The value may be a secret: only the name is ever repeated. */
		if (env[i][n] != '=' || n == 0)
			return err_set(
				err, -EINVAL, "environment entry %zu is not NAME=VALUE", i + 1);
	}
	return 0;
}

/* What the reader of a message would not accept is to be told to its author. */
static int check_strings(char *const *strings, uint32_t max, const char *what, struct err *err)
{
	for (size_t i = 0; strings && strings[i]; i++) {
		if (i >= max)
			return err_set(err, -EINVAL, "more than %u %ss", max, what);
		if (strlen(strings[i]) > SPEC_STRING_MAX)
			return err_set(err, -EINVAL, "%s %zu is longer than %u bytes", what, i + 1,
				SPEC_STRING_MAX);
	}
	return 0;
}

static int check_lists(const struct spec *s, struct err *err)
{
	int r = check_strings(s->argv, SPEC_STRINGS_MAX, "argument", err);

	if (r == 0)
		r = check_strings(s->env, SPEC_STRINGS_MAX, "variable", err);
	if (r == 0)
		r = check_strings(s->globs, SPEC_GLOBS_MAX, "capture pattern", err);
	return r;
}

static int check_limits(const struct limits *limits, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(limit_rows); i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t v = limit_value(limits, row);

		if (v < row->min || v > row->max)
			return err_set(err, -EINVAL, "limit %s: %llu is not between %llu and %llu",
				row->name, (unsigned long long)v, (unsigned long long)row->min,
				(unsigned long long)row->max);
	}
	return 0;
}

static bool is_one_path(char *const *globs)
{
	return globs && globs[0] && !globs[1] && pack_name_is_clean(globs[0]);
}

static int check_workspace(const struct spec *s, struct err *err)
{
	if (s->workspace[0] && !str_is_hex(s->workspace, WORKSPACE_ID_SIZE))
		return err_set(err, -EINVAL, "workspace id is not %d hexadecimal digits",
			WORKSPACE_ID_SIZE);
	if (s->change[0] && !str_is_hex(s->change, SPEC_CHANGE_SIZE))
		return err_set(
			err, -EINVAL, "the change is not %d hexadecimal digits", SPEC_CHANGE_SIZE);
	if (s->change[0] && (!s->workspace[0] || s->deed == DEED_EXECUTE))
		return err_set(err, -EINVAL, "a change where no files of a session are wanted");
	return 0;
}

static int check_deed(const struct spec *s, struct err *err)
{
	bool executes = s->deed == DEED_EXECUTE;

	if (s->deed >= DEED_COUNT)
		return err_set(err, -EINVAL, "there is no deed %d", (int)s->deed);
	if (executes && (!s->argv || !s->argv[0] || !s->argv[0][0]))
		return err_set(err, -EINVAL, "no command");
	if (!executes && ((s->argv && s->argv[0]) || s->tty))
		return err_set(err, -EINVAL, "a command where only files are wanted");
	if (s->exec && !executes)
		return err_set(err, -EINVAL, "executable files where nothing is executed");
	if (s->talks && (!executes || s->tty))
		return err_set(err, -EINVAL, "answers from what has no stdin");
	if (s->deaf && (s->talks || s->tty))
		return err_set(err, -EINVAL, "no stdin where it is talked to or a terminal");
	if (executes && s->clears)
		return err_set(err, -EINVAL, "a command where the workspace is to be cleared");
	if (s->deed == DEED_FETCH && (s->takes_files || s->clears || !is_one_path(s->globs)))
		return err_set(err, -EINVAL, "more than one file where only that is wanted");
	if (s->deed == DEED_LIST && (s->takes_files || s->clears || (s->globs && s->globs[0])))
		return err_set(err, -EINVAL, "files where only their names are wanted");
	if (s->lists != (s->deed == DEED_LIST) && !executes)
		return err_set(err, -EINVAL, "names where only files are wanted, or none");
	if (s->digests && !s->lists)
		return err_set(err, -EINVAL, "digests of files that are not listed");
	return check_workspace(s, err);
}

int spec_check(const struct spec *s, struct err *err)
{
	if (!str_is_hex(s->id, RUN_ID_SIZE))
		return err_set(err, -EINVAL, "run id is not %d hexadecimal digits", RUN_ID_SIZE);
	if (!streq(s->image, "host") && !str_is_hex(s->image, 64))
		return err_set(err, -EINVAL, "image is neither 'host' nor a digest");
	int r = check_deed(s, err);
	if (r < 0)
		return r;
	if (s->cwd && s->cwd[0] != '/')
		return err_set(err, -EINVAL, "working directory '%.128s' is not absolute", s->cwd);
	if (s->cwd && strlen(s->cwd) > SPEC_CWD_MAX)
		return err_set(
			err, -EINVAL, "working directory is longer than %u bytes", SPEC_CWD_MAX);
	for (size_t i = 0; s->globs && s->globs[i]; i++) {
		if (!s->globs[i][0])
			return err_set(err, -EINVAL, "capture pattern %zu is empty", i + 1);
	}
	r = check_lists(s, err);
	if (r == 0)
		r = check_env(s->env, err);
	return r < 0 ? r : check_limits(&s->limits, err);
}
