/* Keys that we make ourselves, and the small files they are kept in. */
#pragma once
#include <stddef.h>

struct err;

/* "bj_" and 32 random bytes in base64url. */
#define KEYFILE_KEY_SIZE 46

/* A fresh key; aborts when the kernel has no randomness to give. */
void keyfile_make_key(char ret[KEYFILE_KEY_SIZE + 1]);

/* The secret in `<dir>/<name>`; when there is none, one is made and is on disk before this
 * returns. Of several processes that start at once, all get the same. The caller frees and
 * wipes it. -EPERM for a file that others than its owner may read, or that is of somebody
 * other than us or root; -EINVAL for one without a usable secret. */
int keyfile_load(const char *dir, const char *name, char **ret, struct err *err);

/* Wipe and free; NULL is allowed. */
void keyfile_wipe(char *secret);
