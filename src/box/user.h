/* Who the processes of a user namespace are: one user and one group. */
#pragma once
#include <sys/types.h>

struct err;

/* In a user namespace that was just made by us, whose effective ids are `uid` and `gid`
 * outside: map these, and nobody else, to ids inside. Needs no privilege. */
int user_map_self(uid_t uid_inside, uid_t uid, gid_t gid_inside, gid_t gid, struct err *err);
