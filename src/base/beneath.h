/* Opening what lies below a directory, by a path from somebody we do not trust. */
#pragma once

/* Open `path` for reading, without blocking on what is no file. It is relative and has no ".."
 * parts; no link is followed, neither on the way nor at its end. A descriptor or a negative
 * errno. */
int beneath_open(int dir_fd, const char *path);
