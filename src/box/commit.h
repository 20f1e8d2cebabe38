/* Files into a workspace that others may be using: all of them or none. They are written
 * to a directory beside the rest first, and moved to where they belong when everything
 * that could go wrong has been looked at. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Make an empty directory for new files below `dir_fd`; its name goes to `ret_name`, and has the
 * first COMMIT_DIGITS of `digits`, which are hexadecimal. What was there of this name goes: nobody
 * else may have the same digits at the same time. */
#define COMMIT_DIGITS    16u
#define COMMIT_NAME_SIZE 32
int commit_begin(int dir_fd, const char *digits, char ret_name[COMMIT_NAME_SIZE], int *ret_fd,
	struct err *err);

/* Move what it holds to its parent, file by file, replacing what has the same name there;
 * directories are merged. With `clears`, all that was in the parent goes first. Refused
 * before anything was changed: -EEXIST for a file in the place of a directory or the other
 * way round, -EDQUOT when the workspace would then hold more than `max_bytes`. */
int commit_end(int dir_fd, const char *name, bool clears, uint64_t max_bytes, struct err *err);

/* Make good what somebody with these digits left who was killed while clearing: either all that was
 * there before is there again, or all that is new. They must be a secret from the guests that were
 * there before, and no guest may be there now; so whatever has these names is ours. */
int commit_recover(int dir_fd, const char *digits, struct err *err);

/* Could a directory of this name, at the top, be one that is made here? */
bool commit_is_name(const char *name);

/* Forget it. */
void commit_abort(int dir_fd, const char *name);
