/* What tests of files need: a directory of their own, gone with its scope, small
 * files in it, and a count of open descriptors to notice a leak by. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

struct scratch {
	char path[64];
	int fd;
};

static inline void scratch_make(struct scratch *s)
{
	(void)snprintf(s->path, sizeof(s->path), "/tmp/belljar_test.XXXXXX");
	s->fd = mkdtemp(s->path) ? open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (s->fd < 0 || fchmod(s->fd, 0755) < 0)
		abort();
}

static inline void scratch_remove(struct scratch *s)
{
	(void)close(s->fd);
	if (fd_remove_tree(AT_FDCWD, s->path) < 0)
		abort();
}

#define SCRATCH(name)                                                                              \
	CLEANUP(scratch_remove) struct scratch name;                                               \
	scratch_make(&name)

/* Make or replace the file `name` below `dir_fd`. */
static inline void scratch_write(int dir_fd, const char *name, const char *text)
{
	AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_full(fd, text, strlen(text)) < 0)
		abort();
}

static inline bool scratch_has(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* True when the file `name` holds exactly `text`. */
static inline bool scratch_holds(int dir_fd, const char *name, const char *text)
{
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fd_read_all(fd, 1 << 20, &data, &size) < 0)
		return false;
	return size == strlen(text) && memcmp(data, text, size) == 0;
}

/* How many entries a directory has, "." and ".." among them. */
static inline size_t scratch_count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* How many descriptors this process has open. */
static inline size_t scratch_count_fds(void)
{
	return scratch_count_entries("/proc/self/fd");
}
