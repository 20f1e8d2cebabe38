/* Descriptors: whole reads and writes, flags, and small files. Every descriptor
 * made here is close-on-exec. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read until `size` bytes or end of file; the number read, or a negative errno. The second reads
 * from `offset` on, wherever the file stands. */
ssize_t fd_read_full(int fd, void *buf, size_t size);
ssize_t fd_pread_full(int fd, void *buf, size_t size, off_t offset);

/* Write all of `buf`; 0 or a negative errno. */
int fd_write_full(int fd, const void *buf, size_t size);

/* Read a small text file below `dir_fd` (AT_FDCWD for none) into `buf`, always
 * terminated, trailing newlines removed; its length or a negative errno. A file
 * that does not fit is -EFBIG. */
ssize_t fd_read_text(int dir_fd, const char *path, char *buf, size_t size);

/* The same of an open file, from its beginning and with one read: what the kernel makes up when
 * it is read shows what holds now, all at once unless it is a list of more than a page. */
ssize_t fd_reread_text(int fd, char *buf, size_t size);

/* Write `text` to an existing file below `dir_fd` in one write, as kernel files
 * want it; 0 or a negative errno. */
int fd_write_text(int dir_fd, const char *path, const char *text);

/* Read a whole file of at most `max` bytes; the caller frees `*ret`, which is
 * terminated by a NUL that does not count. -EFBIG when it is larger. */
int fd_read_all(int fd, size_t max, char **ret, size_t *ret_size);

/* Set or clear O_NONBLOCK; 0 or a negative errno. */
int fd_set_nonblock(int fd, bool on);

/* pipe2(O_CLOEXEC) with the ends named; 0 or a negative errno. */
int fd_pipe(int *ret_read_fd, int *ret_write_fd);

/* Let this process open as many descriptors as it may. */
void fd_raise_limit(void);

/* How many may stay open for nothing but speed: a small part of what it may open. */
size_t fd_count_spare(void);

/* The entries of the directory `dir_fd` from its first, by a descriptor of their own; NULL
 * with errno on failure. For CLEANUP(fd_close_dirp). */
DIR *fd_open_dir(int dir_fd);
void fd_close_dirp(DIR **dir);

/* Open a directory up to its owner, who can not enter it: what is there now, not what the name may
 * mean when it is looked up again. A descriptor of it for openat() alone; -1 with errno, which is
 * ENOTDIR for a link. `resolve` is as for openat2(). */
int fd_unshut(int dir_fd, const char *name, uint64_t resolve);

/* Remove the directory `name` below `dir_fd` with all it holds, however deep. Links
 * are removed, never followed; nothing that is mounted inside is entered: that is
 * -EXDEV, or -EBUSY for a file, and what is left stays. 0 when it is gone
 * afterwards, also when it never was. */
int fd_remove_tree(int dir_fd, const char *name);
