/* The keeper's place on disk, and what a killed predecessor left behind.
 *
 *   <root>/keeper.sock       where clients connect
 *   <root>/keeper.lock       locked by the one keeper that listens there
 *   <root>/keepers/<id>      locked by each living keeper, private ones included;
 *                            its cgroups are called belljar-<id>
 *
 * A lock dies with its process, however that ended. So a file in keepers/ which
 * can be locked belongs to a dead keeper, and its cgroups to nobody. Processes,
 * mounts and namespaces need no sweeping: boxes end with their keeper. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "keeper/keeper_private.h"

#define ID_SIZE 16

/* How often and how soon a lock is tried again whose holder may be dead. */
#define LOCK_TRIES    50
#define LOCK_PAUSE_US 10000

static int open_dir(int at_fd, const char *name, mode_t mode, int *ret, struct err *err)
{
	if (mkdirat(at_fd, name, mode) < 0 && errno != EEXIST)
		return err_errno(err, "make the directory %s", name);
	int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open the directory %s", name);
	*ret = fd;
	return 0;
}

/* Lock the file, if nobody has: its descriptor, or a negative errno. The file may
 * be removed between opening and locking it, and then the lock means nothing. */
static int lock_file(int dir_fd, const char *name, int flags)
{
	struct stat ours, there;
	AUTO_FD fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	if (fstat(fd, &ours) < 0 || fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
		ours.st_ino != there.st_ino)
		return -ESTALE;
	return take_fd(&fd);
}

/* A box that was just being made when its keeper was killed has inherited the lock,
 * and holds it until it has closed all that, which is soon. */
static int await_lock(int dir_fd, const char *name)
{
	int fd = lock_file(dir_fd, name, O_CREAT);

	for (int i = 0; i < LOCK_TRIES && (fd == -EWOULDBLOCK || fd == -ESTALE); i++) {
		(void)usleep(LOCK_PAUSE_US);
		fd = lock_file(dir_fd, name, O_CREAT);
	}
	return fd;
}

static void group_name(const char *id, char *buf, size_t size)
{
	(void)snprintf(buf, size, "belljar-%.*s", ID_SIZE, id);
}

static void sweep_one(int dir_fd, const char *id)
{
	struct err err = { 0 };
	char name[64];
	AUTO_FD lock = lock_file(dir_fd, id, 0);

	if (lock < 0)
		return; /* alive, or swept by somebody else */
	group_name(id, name, sizeof(name));
	if (cgroup_sweep(name, &err) < 0) {
		log_warn("cannot sweep what keeper %s left, ignoring: %s", id, err.text);
		return; /* the file stays, so that the next keeper tries again */
	}
	(void)unlinkat(dir_fd, id, 0);
	log_info("swept what keeper %s left", id);
}

static void sweep(int dir_fd)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (str_is_hex(entry->d_name, ID_SIZE))
			sweep_one(dir_fd, entry->d_name);
	}
	(void)closedir(dir);
}

static int register_keeper(struct keeper *k, int keepers_fd, struct err *err)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		abort();
	(void)snprintf(k->id, sizeof(k->id), "%016llx", (unsigned long long)bits);
	/* Another keeper's sweep may catch the file before it is locked. */
	do {
		k->lock_fd = lock_file(keepers_fd, k->id, O_CREAT);
	} while (k->lock_fd == -ESTALE || k->lock_fd == -EWOULDBLOCK);
	return k->lock_fd < 0 ? err_set(err, k->lock_fd, "register in keepers/") : 0;
}

int state_open(struct keeper *k, const char *root, struct err *err)
{
	AUTO_FD keepers = -1;
	AUTO_FD images = -1;
	char name[64];
	int r = path_state_root(root, &k->root_dir, err);

	if (r == 0)
		r = path_make_dirs(k->root_dir, 0755, err);
	if (r == 0)
		r = open_dir(AT_FDCWD, k->root_dir, 0755, &k->root_fd, err);
	if (r == 0)
		r = open_dir(k->root_fd, "images", 0755, &images, err);
	if (r == 0)
		r = open_dir(k->root_fd, "keepers", 0700, &keepers, err);
	if (r == 0)
		r = register_keeper(k, keepers, err);
	if (r < 0)
		return r;
	sweep(keepers);
	group_name(k->id, name, sizeof(name));
	return cgroup_host_open(&k->cgroups, name, err);
}

/* bind() takes a path of 107 bytes at most; through the directory's descriptor it
 * is short wherever the state directory lies. */
static int bind_socket(struct keeper *k, int fd, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/keeper.sock",
		k->root_fd);
	if (unlinkat(k->root_fd, "keeper.sock", 0) < 0 && errno != ENOENT)
		return err_errno(err, "remove the old keeper.sock");
	mode_t old = umask(0177);
	int r = bind(fd, (struct sockaddr *)&address, sizeof(address));
	(void)umask(old);
	if (r < 0)
		return err_errno(err, "bind keeper.sock");
	if (k->uid != geteuid() &&
		fchownat(k->root_fd, "keeper.sock", k->uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "give keeper.sock to uid %u", (unsigned)k->uid);
	return 0;
}

int state_listen(struct keeper *k, int *ret_fd, struct err *err)
{
	AUTO_FD lock = await_lock(k->root_fd, "keeper.lock");
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (lock == -EWOULDBLOCK)
		return err_set(err, -EADDRINUSE, "another keeper serves %s", k->root_dir);
	if (lock < 0)
		return err_set(err, lock, "lock keeper.lock: %s", strerror(-lock));
	if (fd < 0)
		return err_errno(err, "make a socket");
	int r = bind_socket(k, fd, err);
	if (r < 0)
		return r;
	if (listen(fd, 64) < 0)
		return err_errno(err, "listen");
	/* Held until the process ends. */
	(void)take_fd(&lock);
	k->owns_socket = true;
	*ret_fd = take_fd(&fd);
	return 0;
}

bool state_is_gone(const struct keeper *k)
{
	struct stat st;

	if (fstat(k->root_fd, &st) == 0 && st.st_nlink == 0)
		return true;
	return stat(k->root_dir, &st) < 0 && errno == ENOENT;
}

void state_close(struct keeper *k)
{
	char path[40];

	cgroup_host_free(k->cgroups);
	k->cgroups = NULL;
	if (k->lock_fd >= 0) {
		(void)snprintf(path, sizeof(path), "keepers/%s", k->id);
		(void)unlinkat(k->root_fd, path, 0);
	}
	if (k->owns_socket)
		(void)unlinkat(k->root_fd, "keeper.sock", 0);
	close_fdp(&k->lock_fd);
	close_fdp(&k->images_fd);
	close_fdp(&k->root_fd);
	free(k->root_dir);
	k->root_dir = NULL;
}
