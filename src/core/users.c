#include "core/users.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "core/identity.h"

#define SALT_SIZE sizeof(((struct user *)0)->salt)
#define HASH_SIZE sizeof(((struct user *)0)->hash)

/* Keys that were found before, so that a user among many costs one hash and not many. */
#define CACHE_SIZE 64u

struct users {
	char *path;
	bool may_be_absent;
	struct stat seen; /* of the file that `list` is from */
	struct user_list list;
	struct {
		unsigned char digest[HASH_SIZE]; /* of the key without salt */
		const struct user *user;
	} cache[CACHE_SIZE];
};

bool users_is_name(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t size = strlen(name);

	return size > 0 && size <= USERS_NAME_MAX && strchr(first, *name) &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == size &&
	       identity_is_user_id(name);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly `size` bytes of lower-case hexadecimal, and then `end`. */
static const char *parse_hex(const char *text, unsigned char *out, size_t size, char end)
{
	for (size_t i = 0; i < size; i++) {
		int high = hex_value(text[2 * i]);
		int low = high < 0 ? -1 : hex_value(text[2 * i + 1]);

		if (low < 0)
			return NULL;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return text[2 * size] == end ? text + 2 * size : NULL;
}

static int parse_line(const char *line, struct user *ret, struct err *err)
{
	char name[USERS_NAME_MAX + 2];
	char role[8];
	int at = 0;

	if (sscanf(line, "%64s %7s %n", name, role, &at) != 2 || at == 0)
		return err_set(err, -EINVAL, "it is not NAME ROLE sha256$SALT$HASH");
	if (!users_is_name(name))
		return err_set(err, -EINVAL, "the name is not one");
	if (!streq(role, "user") && !streq(role, "admin"))
		return err_set(err, -EINVAL, "the role is neither user nor admin");
	const char *p = str_after(line + at, "sha256$");
	if (!p)
		return err_set(err, -EINVAL, "the key is not hashed by sha256");
	p = parse_hex(p, ret->salt, SALT_SIZE, '$');
	if (!p || !parse_hex(p + 1, ret->hash, HASH_SIZE, '\0'))
		return err_set(err, -EINVAL, "the salt or hash is not hexadecimal of its size");
	memcpy(ret->name, name, strlen(name) + 1);
	ret->admin = streq(role, "admin");
	return 0;
}

static int make_room(struct user_list *list, struct err *err)
{
	if (list->n >= USERS_MAX)
		return err_set(err, -EINVAL, "more than %u users", USERS_MAX);
	if (list->n & (list->n - 1)) /* it grows at powers of two */
		return 0;
	struct user *grown = reallocarray(list->users, list->n ? 2 * list->n : 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "no memory");
	list->users = grown;
	return 0;
}

static int add_line(struct user_list *list, const char *line, struct err *err)
{
	struct user user = { 0 };

	int r = parse_line(line, &user, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n; i++) {
		if (streq(list->users[i].name, user.name))
			return err_set(err, -EINVAL, "%s is there already", user.name);
	}
	r = make_room(list, err);
	if (r == 0)
		list->users[list->n++] = user;
	return r;
}

static char *trim(char *line)
{
	line += strspn(line, " \t");
	for (size_t n = strlen(line); n > 0 && strchr(" \t\r", line[n - 1]);)
		line[--n] = '\0';
	return line;
}

int users_parse(const char *text, size_t size, struct user_list *ret, struct err *err)
{
	struct err why = { 0 };
	unsigned number = 0;

	*ret = (struct user_list){ 0 };
	if (size > USERS_FILE_SIZE_MAX)
		return err_set(err, -EINVAL, "larger than %zu bytes", USERS_FILE_SIZE_MAX);
	if (memchr(text, '\0', size))
		return err_set(err, -EINVAL, "it holds a NUL character");
	AUTO_FREE char *copy = strndup(text, size);
	if (!copy)
		return err_set(err, -ENOMEM, "no memory");
	char *rest = copy;
	for (char *line; (line = strsep(&rest, "\n"));) {
		number++;
		line = trim(line);
		if (!*line || *line == '#')
			continue;
		if (add_line(ret, line, &why) < 0)
			return err_set(err, -EINVAL, "line %u: %s", number, why.text);
	}
	return 0;
}

void users_list_fini(struct user_list *list)
{
	free(list->users);
	*list = (struct user_list){ 0 };
}

static void hash_key(const unsigned char *salt, const char *key, unsigned char ret[HASH_SIZE])
{
	unsigned char input[SALT_SIZE + KEYFILE_KEY_SIZE];

	memcpy(input, salt, SALT_SIZE);
	memcpy(input + SALT_SIZE, key, KEYFILE_KEY_SIZE);
	(void)SHA256(input, sizeof(input), ret);
	explicit_bzero(input, sizeof(input));
}

void users_format(struct user *user, const char *key, char ret[USERS_LINE_SIZE])
{
	char salt[2 * SALT_SIZE + 1];
	char hash[2 * HASH_SIZE + 1];

	if (getrandom(user->salt, SALT_SIZE, 0) != (ssize_t)SALT_SIZE)
		abort();
	hash_key(user->salt, key, user->hash);
	str_hex(user->salt, SALT_SIZE, salt);
	str_hex(user->hash, HASH_SIZE, hash);
	snprintf(ret, USERS_LINE_SIZE, "%s %s sha256$%s$%s", user->name,
		user->admin ? "admin" : "user", salt, hash);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mode == b->st_mode && a->st_uid == b->st_uid &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The state of the file is noted before it is read: a change while we read is seen the next
 * time. With a file that is gone or bad the list is empty. */
static int reload(struct users *u, const struct stat *now, struct err *err)
{
	struct user_list list = { 0 };
	int r = users_read(u->path, &list, err);

	u->seen = *now;
	memset(u->cache, 0, sizeof(u->cache));
	users_list_fini(&u->list);
	if (r < 0)
		users_list_fini(&list);
	u->list = list;
	return r;
}

static void refresh(struct users *u)
{
	struct err err = { 0 };
	struct stat now = { 0 };

	(void)stat(u->path, &now); /* all zero when it is gone, which is a change like others */
	if (is_same_file(&now, &u->seen))
		return;
	int r = reload(u, &now, &err);
	if (r == -ENOENT && u->may_be_absent)
		log_info("the users file is gone, users=0");
	else if (r < 0)
		(void)log_error(r, "nobody gets in: %s", err.text);
	else
		log_info("users file read again, users=%zu", u->list.n);
}

int users_open(const char *path, struct users **ret, struct err *err)
{
	CLEANUP(users_freep) struct users *u = xnew(struct users);
	struct stat now = { 0 };

	u->path = xstrdup(path);
	(void)stat(path, &now);
	int r = reload(u, &now, err);
	if (r == -ENOENT)
		return err_set(
			err, r, "no users file %.128s, make one with: belljar user add NAME", path);
	if (r == 0)
		*ret = TAKE(u);
	return r;
}

int users_open_default(const char *root, struct users **ret, struct err *err)
{
	CLEANUP(users_freep) struct users *u = xnew(struct users);
	struct stat now = { 0 };

	u->path = users_default_path(root);
	u->may_be_absent = true;
	(void)stat(u->path, &now);
	int r = reload(u, &now, err);
	if (r < 0 && r != -ENOENT)
		return r;
	*ret = TAKE(u);
	return 0;
}

char *users_default_path(const char *root)
{
	char *path = NULL;

	if (asprintf(&path, "%s/users", root) < 0)
		abort();
	return path;
}

void users_free(struct users *u)
{
	if (!u)
		return;
	users_list_fini(&u->list);
	explicit_bzero(u->cache, sizeof(u->cache));
	free(u->path);
	free(u);
}

/* Every user is tried, also after a hit: how long it takes says nothing about who it was. */
static const struct user *search(const struct users *u, const char *key)
{
	const struct user *found = NULL;
	unsigned char hash[HASH_SIZE];

	for (size_t i = 0; i < u->list.n; i++) {
		hash_key(u->list.users[i].salt, key, hash);
		if (CRYPTO_memcmp(hash, u->list.users[i].hash, HASH_SIZE) == 0)
			found = &u->list.users[i];
	}
	return found;
}

const struct user *users_find_key(struct users *u, const char *key)
{
	unsigned char digest[HASH_SIZE];

	refresh(u);
	if (strlen(key) != KEYFILE_KEY_SIZE || !str_after(key, "bj_"))
		return NULL;
	(void)SHA256((const unsigned char *)key, KEYFILE_KEY_SIZE, digest);
	unsigned slot = digest[0] % CACHE_SIZE;
	if (u->cache[slot].user && CRYPTO_memcmp(u->cache[slot].digest, digest, HASH_SIZE) == 0)
		return u->cache[slot].user;
	const struct user *user = search(u, key);
	if (user) {
		memcpy(u->cache[slot].digest, digest, HASH_SIZE);
		u->cache[slot].user = user;
	}
	return user;
}
