/* The users file: who may use the server, and with which key. One line each,
 *
 *	alice admin sha256$<32 hex digits of salt>$<64 hex digits>
 *
 * and # comments. A key is 256 random bits made by us, so that one SHA-256 is enough: there
 * is no dictionary to try, and a slow hash would only slow down every request. The salt keeps
 * equal lines from being comparable, and tables from being made ahead.
 *
 * The server has one `struct users`, on its loop thread. It looks at the file again when it
 * has changed; while the file can not be used, nobody gets in. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "core/keyfile.h"

struct err;
struct users;

#define USERS_MAX           4096u
#define USERS_FILE_SIZE_MAX ((size_t)1 << 20)
#define USERS_NAME_MAX      63u

struct user {
	char name[USERS_NAME_MAX + 1];
	bool admin;
	unsigned char salt[16];
	unsigned char hash[32];
};

/* A list of users, as read. */
struct user_list {
	struct user *users;
	size_t n;
};

/* Parse the contents of a users file. -EINVAL names the line and what is wrong with it. Give
 * `ret` to users_list_fini() in any case. */
int users_parse(const char *text, size_t size, struct user_list *ret, struct err *err);
void users_list_fini(struct user_list *list);

/* Read a file: -ENOENT when there is none, -EPERM when others than its owner may use it, or
 * it is of somebody other than us or root; for root, the server's user may have it too, and
 * whoever has the server's data beside it. */
int users_read(const char *path, struct user_list *ret, struct err *err);

/* Give `user` a fresh salt and the hash of `key`, and write the line for it. */
#define USERS_LINE_SIZE 192u
void users_format(struct user *user, const char *key, char ret[USERS_LINE_SIZE]);

/* A name is also a directory's: [a-z0-9][a-z0-9._-]{0,62}, and none that we use ourselves. */
bool users_is_name(const char *name);

/* For the server. */
int users_open(const char *path, struct users **ret, struct err *err);
void users_free(struct users *u);

/* The same for the file that `belljar user` makes when no other one is named. It need not be
 * there: until it is, nobody is a user. */
int users_open_default(const char *root, struct users **ret, struct err *err);

/* `<root>/users`. The caller must free() it. */
char *users_default_path(const char *root);

/* Whose key this is: borrowed until the next call; NULL when it is nobody's. */
const struct user *users_find_key(struct users *u, const char *key);

/* Add a user and give out the new key, give one a new key in place of the old one, or remove one.
 * The file is replaced as a whole, and what else is in it is kept. A file that root makes in a
 * state directory belongs to whom the server's data in it belongs to. -EEXIST, -ENOENT, -EINVAL
 * for a bad name. */
int users_add(const char *path, const char *name, bool admin, char ret_key[KEYFILE_KEY_SIZE + 1],
	struct err *err);
int users_rotate(
	const char *path, const char *name, char ret_key[KEYFILE_KEY_SIZE + 1], struct err *err);
int users_remove(const char *path, const char *name, struct err *err);

DEFINE_CLEANUP(struct users, users_free)
