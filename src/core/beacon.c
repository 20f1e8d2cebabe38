#include "core/beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/listener.h"
#include "base/str.h"

#define FRESH     "." BEACON_FILE
#define ON_DEMAND " on-demand"

int beacon_light(int data_fd, const struct beacon *b, struct err *err)
{
	char line[BEACON_URL_MAX + sizeof(ON_DEMAND) + 1];
	int n = snprintf(line, sizeof(line), "%s%s\n", b->url, b->is_on_demand ? ON_DEMAND : "");

	(void)unlinkat(data_fd, FRESH, 0); /* of a server that was killed at this very point */
	AUTO_FD fd = openat(data_fd, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "make " BEACON_FILE);
	int r = fd_write_full(fd, line, (size_t)n);
	if (r < 0)
		return err_set(err, r, "write " BEACON_FILE ": %s", strerror(-r));
	if (renameat(data_fd, FRESH, data_fd, BEACON_FILE) < 0)
		return err_errno(err, "make " BEACON_FILE);
	return 0;
}

void beacon_path(int data_fd, char ret[BEACON_PATH_MAX])
{
	(void)snprintf(ret, BEACON_PATH_MAX, "/proc/self/fd/%d/" BEACON_SOCKET, data_fd);
}

void beacon_put_out(int data_fd)
{
	(void)unlinkat(data_fd, BEACON_SOCKET, 0);
	(void)unlinkat(data_fd, BEACON_FILE, 0);
}

int beacon_open(const char *root, int *ret_fd, struct err *err)
{
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s/data", root) < 0)
		abort();
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open %.200s", path);
	*ret_fd = fd;
	return 0;
}

/* Whoever may write to the directory could put a socket there; that must be nobody new. */
static int check_peer(int data_fd, int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	struct stat st;

	if (fstat(data_fd, &st) < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	return peer.uid == st.st_uid || peer.uid == 0 ? 0 : -EPERM;
}

int beacon_connect(int data_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	beacon_path(data_fd, address.sun_path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	int r = check_peer(data_fd, fd);
	return r < 0 ? r : take_fd(&fd);
}

static bool end_listener(int data_fd)
{
	AUTO_FD socket = beacon_connect(data_fd);
	AUTO_FD fd = -1;
	pid_t pid;

	return socket >= 0 && listener_open(socket, &fd, &pid) == 0 &&
	       syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == 0;
}

void beacon_relieve(const char *root, unsigned wait_ms)
{
	AUTO_FD data_fd = -1;
	struct beacon b = { 0 };

	if (beacon_open(root, &data_fd, NULL) < 0 || beacon_read(data_fd, &b) < 0 ||
		!b.is_on_demand || !end_listener(data_fd))
		return;
	/* It holds this lock until the very end. */
	for (unsigned ms = 0; ms < wait_ms && flock(data_fd, LOCK_EX | LOCK_NB) < 0; ms += 10)
		(void)usleep(10000);
}

int beacon_read(int data_fd, struct beacon *ret)
{
	char line[BEACON_URL_MAX + sizeof(ON_DEMAND)];
	ssize_t n = fd_read_text(data_fd, BEACON_FILE, line, sizeof(line));

	if (n < 0)
		return (int)n;
	size_t size = strcspn(line, " ");
	if (size >= BEACON_URL_MAX || (line[size] && !streq(line + size, ON_DEMAND)))
		return -EBADMSG;
	*ret = (struct beacon){ .is_on_demand = line[size] != '\0' };
	memcpy(ret->url, line, size);
	return 0;
}
