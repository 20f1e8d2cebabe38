/* Whom a server becomes that root has started: the user of SANDBOX_RUN_AS, else "belljar" if
 * there is one, else "nobody". What belongs to that user is the server's. Asks the system's
 * database of users, so it is for the start and for commands, not for the loop. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct err;

struct run_as {
	uid_t uid;
	gid_t gid;
	bool is_shared; /* nobody, for want of a user of our own */
};

/* `name` is the setting, or NULL. -ENOENT when there is no such user. */
int run_as_find(const char *name, struct run_as *ret, struct err *err);

/* Whether a server that was started with our environment would become this user. */
bool run_as_is_server(uid_t uid);
