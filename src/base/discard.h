/* Giving up files that may be large. To free half a gigabyte on a disk takes a fifth of a second,
 * and happens where a file without a name is closed for the last time. A thread of this process
 * does that, one file after the other, so that a loop need not. Any thread may call. */
#pragma once

/* Close `*fd`, here if that is quick, and set it to -1; nothing for -1. */
void discard_fd(int *fd);

/* Remove the file `path` below `dir_fd`. 0, or a negative errno when it still has its name. */
int discard_file(int dir_fd, const char *path);
