#include "core/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "core/run.h"
#include "core/service.h"

#define FRESH_DIR "meta/fresh"
#define PATH_SIZE 160u

static void format_fresh(char path[PATH_SIZE], const char *id)
{
	(void)snprintf(path, PATH_SIZE, FRESH_DIR "/%s", id);
}

/* Make and open one directory below another, whoever made it first. */
static int enter(int dir_fd, const char *name, bool make)
{
	if (make && mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int run_dir_open(const struct service *s, const char *user, const char *id, bool make, int *ret_fd)
{
	AUTO_FD user_fd = enter(s->data_fd, user, make);
	AUTO_FD runs_fd = user_fd < 0 ? -1 : enter(user_fd, "runs", make);
	int fd = runs_fd < 0 ? -1 : enter(runs_fd, id, make);

	if (user_fd < 0)
		return user_fd;
	if (fd < 0)
		return runs_fd < -1 ? runs_fd : fd;
	*ret_fd = fd;
	return 0;
}

static int make_anew(const struct service *s, const char *id, struct stream_files *ret)
{
	char path[PATH_SIZE];

	format_fresh(path, id);
	int fd = enter(s->data_fd, path, true);
	if (fd == -ENOENT) {
		AUTO_FD fresh_fd = enter(s->data_fd, FRESH_DIR, true);

		fd = fresh_fd < 0 ? fresh_fd : enter(fresh_fd, id, true);
	}
	if (fd < 0)
		return fd;
	*ret = STREAM_FILES_NONE;
	ret->dir_fd = fd;
	ret->index_fd = openat(fd, "index", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (ret->index_fd >= 0)
		return 0;
	int r = -errno;
	stream_files_close(ret);
	return r;
}

int run_dir_make(struct service *s, const char *id, struct stream_files *ret)
{
	char from[PATH_SIZE];
	char to[PATH_SIZE];

	while (s->spares.n > 0) {
		struct run_dir_spare *spare = &s->spares.list[--s->spares.n];

		format_fresh(from, spare->id);
		format_fresh(to, id);
		if (renameat(s->data_fd, from, s->data_fd, to) == 0) {
			*ret = spare->files;
			return 0;
		}
		stream_files_close(&spare->files);
	}
	return make_anew(s, id, ret);
}

int run_dir_keep(const struct service *s, const char *user, const char *id)
{
	char from[PATH_SIZE];
	char to[PATH_SIZE];

	format_fresh(from, id);
	(void)snprintf(to, sizeof(to), "%s/runs/%s", user, id);
	if (renameat(s->data_fd, from, s->data_fd, to) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	/* The first one of this user, or there is nothing to keep. */
	AUTO_FD user_fd = enter(s->data_fd, user, true);
	AUTO_FD runs_fd = user_fd < 0 ? user_fd : enter(user_fd, "runs", true);
	if (runs_fd < 0)
		return runs_fd;
	return renameat(s->data_fd, from, s->data_fd, to) < 0 ? -errno : 0;
}

void run_dir_drop(const struct service *s, const char *id)
{
	AUTO_FD fresh_fd = enter(s->data_fd, FRESH_DIR, false);

	if (fresh_fd >= 0)
		(void)fd_remove_tree(fresh_fd, id);
}

static size_t spares_max(void)
{
	size_t n = fd_count_spare() / RUN_DIR_FDS;

	return n < RUN_DIR_SPARES_MAX ? n : RUN_DIR_SPARES_MAX;
}

void run_dir_give_back(struct service *s, const char *id, struct stream_files *files)
{
	if (s->spares.n >= spares_max()) {
		stream_files_close(files);
		run_dir_drop(s, id);
		return;
	}
	struct run_dir_spare *spare = &s->spares.list[s->spares.n++];
	(void)snprintf(spare->id, sizeof(spare->id), "%s", id);
	spare->files = *files;
	*files = STREAM_FILES_NONE;
}

/* What is still there now was spare, or of runs that a predecessor did not come to store. */
void run_dir_clear(struct service *s)
{
	int fd = enter(s->data_fd, FRESH_DIR, false);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	for (const struct dirent *e; (e = readdir(dir));) {
		if (e->d_name[0] != '.' && !run_find(s, e->d_name, NULL))
			(void)fd_remove_tree(dirfd(dir), e->d_name);
	}
	(void)closedir(dir);
}

void run_dir_fini(struct service *s)
{
	while (s->spares.n > 0) {
		struct run_dir_spare *spare = &s->spares.list[--s->spares.n];

		stream_files_close(&spare->files);
		run_dir_drop(s, spare->id);
	}
}
