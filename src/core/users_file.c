/* The users file on disk: reading it with care, and replacing it as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/run_as.h"
#include "core/users.h"

/* Whose the server's data beside the file are, in a state directory that is root's: a server that
 * root starts gives them to the user whom it becomes. */
static bool find_data_owner(const char *path, struct stat *ret)
{
	AUTO_FREE char *copy = xstrdup(path);
	const char *dir = dirname(copy);
	struct stat st;
	AUTO_FREE char *data = NULL;

	if (stat(dir, &st) < 0 || st.st_uid != 0 || (st.st_mode & 022))
		return false;
	if (asprintf(&data, "%s/data", dir) < 0)
		abort();
	return lstat(data, ret) == 0 && S_ISDIR(ret->st_mode);
}

/* Who can write it can let himself in: that is us, root, and, where we are root, the user whom
 * a server becomes, since the server gives the file to that user. */
static bool is_trusted(uid_t owner, const char *path)
{
	struct stat data;

	if (owner == 0 || owner == geteuid())
		return true;
	if (geteuid() != 0)
		return false;
	return run_as_is_server(owner) || (find_data_owner(path, &data) && data.st_uid == owner);
}

static int check_mode(const struct stat *st, const char *path, struct err *err)
{
	if (!S_ISREG(st->st_mode))
		return err_set(err, -EPERM, "users file %.128s is not a file", path);
	if (!is_trusted(st->st_uid, path))
		return err_set(err, -EPERM, "users file %.128s belongs to uid %u%s", path,
			(unsigned)st->st_uid,
			geteuid() == 0 ? ", whom the server does not become; see SANDBOX_RUN_AS"
				       : "");
	if (st->st_mode & 077)
		return err_set(err, -EPERM,
			"users file %.128s is open to others than its owner, chmod 600 it", path);
	return 0;
}

static int read_text(
	const char *path, char **ret, size_t *ret_size, struct stat *ret_st, struct err *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return err_errno(err, "open the users file %.128s", path);
	int r = check_mode(ret_st, path, err);
	if (r < 0)
		return r;
	r = fd_read_all(fd, USERS_FILE_SIZE_MAX, ret, ret_size);
	return r < 0 ? err_set(err, r, "read the users file %.128s: %s", path, strerror(-r)) : 0;
}

static int parse_text(
	const char *path, const char *text, size_t size, struct user_list *ret, struct err *err)
{
	char what[160];
	int r = users_parse(text, size, ret, err);

	(void)snprintf(what, sizeof(what), "users file %.128s", path);
	return r < 0 ? err_wrap(err, r, what) : 0;
}

int users_read(const char *path, struct user_list *ret, struct err *err)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	struct stat st;

	*ret = (struct user_list){ 0 };
	int r = read_text(path, &text, &size, &st, err);
	return r < 0 ? r : parse_text(path, text, size, ret, err);
}

/* One change of the file: its lock and its old contents. */
struct change {
	const char *path;
	int lock_fd;
	char *text;
	size_t size;
	bool exists;
	struct stat st; /* when it exists */
	struct user_list list;
};

static void change_end(struct change *c)
{
	users_list_fini(&c->list);
	free(c->text);
	close_fdp(&c->lock_fd);
}

#define CHANGE(name, of) CLEANUP(change_end) struct change name = { .path = (of), .lock_fd = -1 }

static char *append(const char *path, const char *suffix)
{
	char *name = NULL;

	if (asprintf(&name, "%s%s", path, suffix) < 0)
		abort();
	return name;
}

static int change_begin(struct change *c, struct err *err)
{
	AUTO_FREE char *lock = append(c->path, ".lock");

	c->lock_fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->lock_fd < 0 || flock(c->lock_fd, LOCK_EX) < 0)
		return err_errno(err, "lock %.128s", lock);
	int r = read_text(c->path, &c->text, &c->size, &c->st, err);
	if (r == -ENOENT) {
		c->text = xstrdup("");
		return 0;
	}
	c->exists = true;
	return r < 0 ? r : parse_text(c->path, c->text, c->size, &c->list, err);
}

static bool has_user(const struct change *c, const char *name)
{
	for (size_t i = 0; i < c->list.n; i++) {
		if (streq(c->list.users[i].name, name))
			return true;
	}
	return false;
}

static int sync_parent(const char *path)
{
	AUTO_FREE char *copy = xstrdup(path);
	AUTO_FD fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* A server that runs already must be able to read it. */
static int give_away(const struct change *c, int fd)
{
	struct stat owner = c->st;

	if (!c->exists && !find_data_owner(c->path, &owner))
		return 0;
	return fchown(fd, owner.st_uid, owner.st_gid) < 0 ? -errno : 0;
}

/* Who reads meanwhile finds the old file or the new one, whole. It stays its owner's, who may
 * be the server's user while we are root. */
static int change_write(const struct change *c, const char *text, size_t size, struct err *err)
{
	AUTO_FREE char *fresh = append(c->path, ".new");

	(void)unlink(fresh); /* of one who was killed here: we have the lock now */
	AUTO_FD fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "make %.128s", fresh);
	int r = fd_write_full(fd, text, size);
	if (r == 0 && geteuid() == 0)
		r = give_away(c, fd);
	if (r == 0 && (fsync(fd) < 0 || rename(fresh, c->path) < 0))
		r = -errno;
	if (r == 0)
		return sync_parent(c->path);
	(void)unlink(fresh);
	return err_set(err, r, "write %.128s: %s", fresh, strerror(-r));
}

int users_add(const char *path, const char *name, bool admin, char ret_key[KEYFILE_KEY_SIZE + 1],
	struct err *err)
{
	CHANGE(c, path);
	struct user user = { .admin = admin };
	char line[USERS_LINE_SIZE];
	AUTO_FREE char *text = NULL;

	if (!users_is_name(name))
		return err_set(err, -EINVAL,
			"'%.64s' can not be a user's name: up to %u of a-z 0-9 . _ -, beginning with "
			"a letter or digit, and not a name the server uses itself",
			name, USERS_NAME_MAX);
	int r = change_begin(&c, err);
	if (r < 0)
		return r;
	if (has_user(&c, name))
		return err_set(err, -EEXIST,
			"%s is there already; 'belljar user rotate' gives it a new key", name);
	if (c.list.n >= USERS_MAX)
		return err_set(err, -ENOSPC, "there are %u users already", USERS_MAX);
	memcpy(user.name, name, strlen(name) + 1);
	char key[KEYFILE_KEY_SIZE + 1];
	keyfile_make_key(key);
	users_format(&user, key, line);
	bool open_end = c.size > 0 && c.text[c.size - 1] != '\n';
	int n = asprintf(&text, "%s%s%s\n", c.text, open_end ? "\n" : "", line);
	r = n < 0 ? -ENOMEM : change_write(&c, text, (size_t)n, err);
	if (r == 0)
		memcpy(ret_key, key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return r;
}

/* True for the line of the user `name`, and for no comment. */
static bool is_line_of(const char *line, const char *name)
{
	const char *rest = str_after(line + strspn(line, " \t"), name);

	return rest && strchr(" \t", *rest) && *rest;
}

/* The file without the line of `name`, or with `fresh` in its place. */
static int change_line(struct change *c, const char *name, const char *fresh, struct err *err)
{
	size_t size = 0;
	size_t fresh_size = fresh ? strlen(fresh) : 0;
	AUTO_FREE char *text = xcalloc(1, c->size + fresh_size + 2);

	for (const char *line = c->text; *line;) {
		size_t n = strcspn(line, "\n");
		n += line[n] == '\n';
		bool is_it = is_line_of(line, name);
		const char *from = is_it ? fresh : line;
		size_t used = is_it ? fresh_size : n;
		if (used > 0)
			memcpy(text + size, from, used);
		size += used;
		if (is_it && used > 0)
			text[size++] = '\n';
		line += n;
	}
	return change_write(c, text, size, err);
}

static int find_user(const struct change *c, const char *name, struct user *ret, struct err *err)
{
	for (size_t i = 0; i < c->list.n; i++) {
		if (streq(c->list.users[i].name, name)) {
			*ret = c->list.users[i];
			return 0;
		}
	}
	return err_set(err, -ENOENT, "there is no user '%.64s' in %.128s", name, c->path);
}

int users_rotate(
	const char *path, const char *name, char ret_key[KEYFILE_KEY_SIZE + 1], struct err *err)
{
	CHANGE(c, path);
	struct user user;
	char key[KEYFILE_KEY_SIZE + 1];
	char line[USERS_LINE_SIZE];
	int r = change_begin(&c, err);

	if (r == 0)
		r = find_user(&c, name, &user, err);
	if (r < 0)
		return r;
	keyfile_make_key(key);
	users_format(&user, key, line);
	r = change_line(&c, name, line, err);
	if (r == 0)
		memcpy(ret_key, key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return r;
}

int users_remove(const char *path, const char *name, struct err *err)
{
	CHANGE(c, path);
	struct user user;
	int r = change_begin(&c, err);

	if (r == 0)
		r = find_user(&c, name, &user, err);
	return r < 0 ? r : change_line(&c, name, NULL, err);
}
