/* Which hierarchies of control groups there are, where we stand in them, and in
 * which directories of them a parent group could be. Knows /proc, makes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"

/* A machine full of containers has some thousand mounts of 200 bytes each. */
#define MOUNTINFO_MAX (8u << 20)
#define SELF_MAX      (64u << 10)

static const char *const controller_names[CONTROLLER_COUNT] = {
	[CONTROLLER_MEMORY] = "memory",
	[CONTROLLER_PIDS] = "pids",
	[CONTROLLER_CPU] = "cpu",
	[CONTROLLER_CPUACCT] = "cpuacct",
};

const char *cgroup_controller_name(enum controller c)
{
	return controller_names[c];
}

uint32_t cgroup_parse_controllers(const char *text, const char *separators)
{
	uint32_t mask = 0;

	while (*text) {
		size_t size = strcspn(text, separators);

		for (size_t i = 0; i < CONTROLLER_COUNT; i++)
			if (strlen(controller_names[i]) == size &&
				strncmp(text, controller_names[i], size) == 0)
				mask |= CONTROLLER_BIT(i);
		text += size;
		text += strspn(text, separators);
	}
	return mask;
}

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes blanks, tabs, newlines and backslashes in paths as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '\\' && is_octal(p[1]) && is_octal(p[2]) && is_octal(p[3])) {
			*to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

struct mount_line {
	char *root;  /* which directory of the file system is to be seen */
	char *point; /* where */
	char *type;
	char *options; /* of the file system: with v1 its controllers */
};

/* "31 23 0:28 root point options [tags...] - type source options", see proc(5). */
static bool split_mount_line(char *line, struct mount_line *ret)
{
	char *field[6] = { 0 };
	char *tail[3] = { 0 };
	char *word = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(field); i++)
		field[i] = strsep(&line, " ");
	while ((word = strsep(&line, " ")) && !streq(word, "-"))
		continue;
	for (size_t i = 0; i < ARRAY_SIZE(tail); i++)
		tail[i] = strsep(&line, " ");
	if (!field[5] || !tail[2])
		return false;
	*ret = (struct mount_line){ field[3], field[4], tail[0], tail[2] };
	unescape(ret->root);
	unescape(ret->point);
	return true;
}

/* Our own group relative to what the mount shows, or NULL when it does not show
 * it. A path with ".." leads out of our cgroup namespace. */
static char *make_own(const char *root, const char *path)
{
	const char *rest = streq(root, "/") ? path : str_after(path, root);

	if (!rest || (*rest && *rest != '/') || strstr(path, "/.."))
		return NULL;
	rest += strspn(rest, "/");

	char *own = xstrdup(rest);
	/* an earlier keeper moved us, or who started us, here: see CGROUP_LEAF */
	char *last = strrchr(own, '/');
	if (streq(last ? last + 1 : own, CGROUP_LEAF))
		*(last ? last : own) = '\0';
	return own;
}

/* Find the line "id:controllers:path" of a hierarchy in /proc/self/cgroup. */
static char *find_own(const char *self, const struct cgroup_mount *m, const char *root)
{
	while (*self) {
		size_t size = strcspn(self, "\n");
		AUTO_FREE char *copy = strndup(self, size);
		char *rest = copy;
		const char *id = strsep(&rest, ":");
		const char *words = strsep(&rest, ":");

		if (rest && rest[0] == '/') {
			bool unified = streq(id, "0") && streq(words, "");
			uint32_t found = cgroup_parse_controllers(words, ",");

			if (m->controllers ? (found & m->controllers) != 0 : unified)
				return make_own(root, rest);
		}
		self += size;
		self += strspn(self, "\n");
	}
	return NULL;
}

static bool is_known(const struct cgroup_mounts *known, const struct cgroup_mount *m)
{
	for (size_t i = 0; i < known->n; i++)
		if (known->items[i].ops == m->ops &&
			(known->items[i].controllers & m->controllers) == m->controllers)
			return true;
	return false;
}

static void add_mount(struct cgroup_mounts *to, const struct mount_line *line, const char *self)
{
	struct cgroup_mount m = { .ops = &cgroup_v2 };

	if (streq(line->type, "cgroup")) {
		m.ops = &cgroup_v1;
		m.controllers = cgroup_parse_controllers(line->options, ",");
		if (m.controllers == 0)
			return; /* a named hierarchy, or one that we have no use for */
	} else if (!streq(line->type, "cgroup2")) {
		return;
	}
	/* a mount of what lies outside our cgroup namespace has root "/.." */
	if (is_known(to, &m) || to->n == ARRAY_SIZE(to->items) || strstr(line->root, "/.."))
		return;
	m.path = xstrdup(line->point);
	m.own = find_own(self, &m, line->root);
	to->items[to->n++] = m;
}

/* The unified hierarchy goes first, since what it can do need not be asked of
 * the others: see is_needed() in cgroup_host.c. */
static void put_unified_first(struct cgroup_mounts *m)
{
	for (size_t i = 1; i < m->n; i++)
		if (m->items[i].ops == &cgroup_v2) {
			struct cgroup_mount first = m->items[0];

			m->items[0] = m->items[i];
			m->items[i] = first;
		}
}

void cgroup_mounts_parse(struct cgroup_mounts *ret, char *mountinfo, char *self)
{
	char *line = NULL;

	*ret = (struct cgroup_mounts){ 0 };
	while ((line = strsep(&mountinfo, "\n"))) {
		struct mount_line parts;

		if (split_mount_line(line, &parts))
			add_mount(ret, &parts, self);
	}
	put_unified_first(ret);
}

static int read_proc(const char *path, size_t max, char **ret, struct err *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t size = 0;

	if (fd < 0)
		return err_errno(err, "open %s", path);
	int r = fd_read_all(fd, max, ret, &size);
	if (r < 0)
		return err_set(err, r, "read %s: %s", path, strerror(-r));
	return 0;
}

int cgroup_mounts_read(struct cgroup_mounts *ret, struct err *err)
{
	AUTO_FREE char *mountinfo = NULL;
	AUTO_FREE char *self = NULL;

	int r = read_proc("/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, err);
	if (r < 0)
		return r;
	r = read_proc("/proc/self/cgroup", SELF_MAX, &self, err);
	if (r == -ENOENT)
		self = xstrdup(""); /* a kernel without control groups */
	else if (r < 0)
		return r;
	cgroup_mounts_parse(ret, mountinfo, self);
	return 0;
}

void cgroup_mounts_fini(struct cgroup_mounts *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->items[i].path);
		free(m->items[i].own);
	}
	m->n = 0;
}

int cgroup_mount_open(const struct cgroup_mount *m)
{
	AUTO_FD fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	if (fs.f_type != m->ops->magic)
		return -ENODEV; /* something else is mounted over it */
	return take_fd(&fd);
}

int cgroup_base_open(int root_fd, const struct cgroup_base *base)
{
	AUTO_FREE char *path = strndup(base->path, base->size);

	if (!path)
		return -ENOMEM;
	int fd = openat(root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The mark that systemd puts on a group that it leaves to us (Delegate=yes). */
static bool is_delegated(int fd)
{
	static const char *const marks[] = { "trusted.delegate", "user.delegate" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		char value = '0';

		if (fgetxattr(fd, marks[i], &value, 1) == 1 && value == '1')
			return true;
	}
	return false;
}

static bool is_owned(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid();
}

static size_t parent_size(const char *path, size_t size)
{
	while (size > 0 && path[size - 1] != '/')
		size--;
	return size > 0 ? size - 1 : 0;
}

size_t cgroup_mount_bases(
	const struct cgroup_mount *m, int root_fd, struct cgroup_base ret[CGROUP_BASES_MAX])
{
	struct cgroup_base own = { m->own, m->own ? strlen(m->own) : 0, true, false };
	struct cgroup_base root = { "", 0, m->own && own.size == 0, m->own && own.size == 0 };
	size_t n = 0;

	if (own.size == 0) {
		ret[n++] = root;
		return n;
	}
	AUTO_FD own_fd = cgroup_base_open(root_fd, &own);
	own.is_ours_alone = own_fd >= 0 && is_delegated(own_fd);
	if (own.is_ours_alone)
		ret[n++] = own;
	ret[n++] = root;
	for (size_t size = own.size; size > 0 && n < CGROUP_BASES_MAX - 1;
		size = parent_size(own.path, size)) {
		struct cgroup_base base = { own.path, size, false, false };
		AUTO_FD fd = cgroup_base_open(root_fd, &base);

		if (fd >= 0 && is_owned(fd))
			ret[n++] = base;
	}
	if (!own.is_ours_alone && own_fd >= 0 && is_owned(own_fd))
		ret[n++] = own;
	return n;
}
