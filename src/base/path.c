#include "base/path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

static bool has_control(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			return true;
	}
	return false;
}

/* True when one of the words between slashes is "." or "..". */
static bool has_dots(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if ((n == 1 && path[0] == '.') || (n == 2 && strncmp(path, "..", 2) == 0))
			return true;
		path += n;
		path += strspn(path, "/");
	}
	return false;
}

/* Drop doubled and trailing slashes, in place. */
static void squeeze(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++) {
		if (*from == '/' && (from[1] == '/' || from[1] == '\0'))
			continue;
		*to++ = *from;
	}
	*to = '\0';
}

static int check_text(const char *path, const char *origin, struct err *err)
{
	if (has_control(path))
		return err_set(err, -EINVAL, "%s: the path holds a control character", origin);
	if (path[0] != '/')
		return err_set(err, -EINVAL, "%s: '%.128s' is not an absolute path", origin, path);
	if (has_dots(path))
		return err_set(err, -EINVAL, "%s: '%.128s' holds '.' or '..'", origin, path);
	if (strspn(path, "/") == strlen(path))
		return err_set(err, -EINVAL, "%s: '/' can not be the state directory", origin);
	if (strlen(path) > PATH_ROOT_MAX)
		return err_set(err, -ENAMETOOLONG, "%s: the path is longer than %u bytes", origin,
			PATH_ROOT_MAX);
	return 0;
}

/* What is there already must be a directory that only we or root can change: who
 * can write to it could swap an image or a socket for his own. */
static int check_existing(const char *path, const char *origin, struct err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "%s: %.128s", origin, path);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "%s: '%.128s' is not a directory", origin, path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EPERM, "%s: '%.128s' belongs to uid %u", origin, path,
			(unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM,
			"%s: others can write to '%.128s', chmod go-w it or name another", origin,
			path);
	return 0;
}

/* Take "." and ".." off the start of `path`; each ".." takes the last name of `dir` with it. */
static const char *climb(const char *path, char *dir)
{
	for (;;) {
		size_t n = strcspn(path, "/");
		bool is_up = n == 2 && strncmp(path, "..", 2) == 0;

		if (!is_up && !(n == 1 && path[0] == '.'))
			return path;
		if (is_up)
			*strrchr(dir, '/') = '\0';
		if (!*dir)
			memcpy(dir, "/", 2);
		path += n;
		path += strspn(path, "/");
	}
}

int path_absolute(const char *path, char **ret, struct err *err)
{
	if (!*path || *path == '/') {
		*ret = xstrdup(path);
		return 0;
	}
	AUTO_FREE char *dir = getcwd(NULL, 0);
	if (!dir)
		return err_errno(err, "find the current directory");
	path = climb(path, dir);
	if (asprintf(ret, "%s%s%s", dir, *path && !streq(dir, "/") ? "/" : "", path) < 0)
		abort();
	return 0;
}

/* The default for who we are. */
static int default_root(char *buf, size_t size, const char **ret_origin, struct err *err)
{
	const char *data = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	int n;

	if (geteuid() == 0) {
		*ret_origin = "state directory";
		n = snprintf(buf, size, "/var/lib/belljar");
	} else if (data && *data) {
		*ret_origin = "$XDG_DATA_HOME";
		n = snprintf(buf, size, "%s/belljar", data);
	} else if (home && *home) {
		*ret_origin = "$HOME";
		n = snprintf(buf, size, "%s/.local/share/belljar", home);
	} else {
		return err_set(err, -EINVAL,
			"no state directory: set $BELLJAR_ROOT or $HOME, or use --root");
	}
	if (n < 0 || (size_t)n >= size)
		return err_set(err, -ENAMETOOLONG, "%s: the path is too long", *ret_origin);
	return 0;
}

int path_state_root(const char *option, char **ret, struct err *err)
{
	const char *variable = getenv("BELLJAR_ROOT");
	const char *origin = option ? "--root" : "$BELLJAR_ROOT";
	const char *chosen = variable;
	AUTO_FREE char *given = NULL;
	char buf[PATH_ROOT_MAX + 1] = "";

	int r = 0;

	if (option) {
		r = path_absolute(option, &given, err);
		chosen = given;
	} else if (!variable || !*variable) {
		r = default_root(buf, sizeof(buf), &origin, err);
		chosen = buf;
	}
	if (r == 0)
		r = check_text(chosen, origin, err);
	if (r < 0)
		return r;
	AUTO_FREE char *path = xstrdup(chosen);
	squeeze(path);
	r = check_existing(path, origin, err);
	if (r < 0)
		return r;
	*ret = TAKE(path);
	return 0;
}

static int make_dir(const char *path, mode_t mode, struct err *err)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return chmod(path, mode) < 0 ? err_errno(err, "chmod %.160s", path) : 0;
	if (errno != EEXIST)
		return err_errno(err, "mkdir %.160s", path);
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "%.160s is not a directory", path);
	return 0;
}

int path_make_dirs(const char *path, mode_t mode, struct err *err)
{
	if (!*path)
		return err_set(err, -EINVAL, "no directory is named");
	AUTO_FREE char *copy = xstrdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int r = make_dir(copy, mode, err);
		if (r < 0)
			return r;
		*slash = '/';
	}
	return make_dir(copy, mode, err);
}
