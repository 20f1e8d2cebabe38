#include "probe/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

/* Columns of a line: six fixed ones, any number of optional ones, a hyphen, three. */
#define COLUMN_ROOT    3
#define COLUMN_POINT   4
#define COLUMN_OPTIONS 5
#define COLUMNS_FIXED  6

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* "\040" becomes a blank, in place: the kernel escapes what would split a name. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (p[0] == '\\' && is_octal(p[1]) && is_octal(p[2]) && is_octal(p[3])) {
			*to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* The next word at `*at`, cut off by a NUL; NULL at the end of the line. */
static char *next_word(char **at)
{
	char *word = *at;

	if (!word || !*word)
		return NULL;
	char *end = strchr(word, ' ');
	if (end)
		*end++ = '\0';
	*at = end;
	return word;
}

int mountinfo_parse_line(char *line, struct mountinfo *ret)
{
	char *fixed[COLUMNS_FIXED];
	char *at = line;

	for (size_t i = 0; i < COLUMNS_FIXED; i++) {
		fixed[i] = next_word(&at);
		if (!fixed[i])
			return -EINVAL;
	}
	for (;;) {
		const char *word = next_word(&at);

		if (!word)
			return -EINVAL;
		if (streq(word, "-"))
			break;
	}
	char *type = next_word(&at);
	char *source = next_word(&at);
	char *super = next_word(&at);
	if (!type || !source || !super)
		return -EINVAL;
	unescape(fixed[COLUMN_ROOT]);
	unescape(fixed[COLUMN_POINT]);
	*ret = (struct mountinfo){
		.root = fixed[COLUMN_ROOT],
		.point = fixed[COLUMN_POINT],
		.options = fixed[COLUMN_OPTIONS],
		.type = type,
		.super = super,
	};
	return 0;
}

int mountinfo_parse(char *text, struct mountinfo_table *ret)
{
	struct mountinfo_table t = { .text = text };
	size_t lines = 1;

	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	t.rows = calloc(lines, sizeof(*t.rows));
	if (!t.rows) {
		free(text);
		return -ENOMEM;
	}
	for (char *line = text; line;) {
		char *end = strchr(line, '\n');

		if (end)
			*end++ = '\0';
		if (mountinfo_parse_line(line, &t.rows[t.n]) == 0)
			t.n++;
		line = end;
	}
	*ret = t;
	return 0;
}

int mountinfo_read(const char *path, struct mountinfo_table *ret)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t size = 0;

	if (fd < 0)
		return -errno;
	int r = fd_read_all(fd, MOUNTINFO_SIZE_MAX, &text, &size);
	if (r < 0)
		return r;
	return mountinfo_parse(text, ret);
}

void mountinfo_fini(struct mountinfo_table *t)
{
	free(t->rows);
	free(t->text);
	*t = (struct mountinfo_table){ 0 };
}

/* Does the line "4:cpu,cpuacct:/path" speak of `controller`, or with NULL of
 * version 2 ("0::/path")? Its path starts at `*ret_path`. */
static bool is_line_about(const char *line, const char *controller, const char **ret_path)
{
	char names[256];
	const char *first = strchr(line, ':');
	const char *second = first ? strchr(first + 1, ':') : NULL;

	if (!second)
		return false;
	size_t n = (size_t)(second - first - 1);
	if (n >= sizeof(names))
		return false;
	memcpy(names, first + 1, n);
	names[n] = '\0';
	*ret_path = second + 1;
	if (!controller)
		return n == 0 && str_after(line, "0:");
	return str_has_word(names, controller);
}

int mountinfo_find_cgroup(const char *text, const char *controller, char *buf, size_t size)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		const char *path = NULL;

		if (is_line_about(line, controller, &path) && path <= line + len) {
			size_t n = (size_t)(line + len - path);

			if (n >= size)
				return -ENAMETOOLONG;
			memcpy(buf, path, n);
			buf[n] = '\0';
			return 0;
		}
		line += len + (line[len] == '\n');
	}
	return -ENOENT;
}

/* The part of `path` below `root`, or NULL when it is not below it. A path that
 * climbs ("/..") lies outside of what this process can see. */
static const char *below(const char *root, const char *path)
{
	if (str_after(path, "/.."))
		return NULL;
	if (streq(root, "/"))
		return path;
	const char *rest = str_after(path, root);
	return rest && (!*rest || *rest == '/') ? rest : NULL;
}

int mountinfo_cgroup_dir(const struct mountinfo *m, const char *path, char *buf, size_t size)
{
	const char *rest = below(m->root, path);

	if (!rest || streq(rest, "/"))
		rest = "";
	int n = snprintf(buf, size, "%s%s", m->point, rest);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
