#include "box/net.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

/* What the kernel counts and lists for a network namespace. Not all of it is there on every
 * host; what is missing must be missing always. */
static const char *const shown[] = { "dev", "snmp", "snmp6", "netstat", "unix", "ip6_flowlabel" };

/* More than these are on any kernel as long as nothing happens. */
#define SHOWN_MAX (64u << 10)

struct nets {
	int home_fd;
	int clean[NETS_MAX];
	size_t n_clean;
	char *pristine; /* what a new one shows */
	size_t pristine_size;
	char *seen; /* room for what another shows */
};

static int open_current(int *ret_fd, struct err *err)
{
	*ret_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? err_errno(err, "open /proc/self/ns/net") : 0;
}

int nets_new(struct nets **ret, struct err *err)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(err, "make a network namespace");
	int r = open_current(&fd, err);
	if (r < 0)
		return r;
	*ret = xnew(struct nets);
	(*ret)->home_fd = fd;
	(*ret)->pristine = xcalloc(1, SHOWN_MAX);
	(*ret)->seen = xcalloc(1, SHOWN_MAX);
	return 0;
}

void nets_free(struct nets *n)
{
	if (!n)
		return;
	while (n->n_clean > 0)
		(void)close(n->clean[--n->n_clean]);
	(void)close(n->home_fd);
	free(n->pristine);
	free(n->seen);
	free(n);
}

/* Here, where we are. */
static int bring_up_lo(struct err *err)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_errno(err, "make a socket");
	return ioctl(fd, SIOCSIFFLAGS, &lo) < 0 ? err_errno(err, "bring up lo") : 0;
}

/* What shows here, where we are; 0 when it does not fit. */
static size_t look(char *text)
{
	AUTO_FD dir_fd = open("/proc/self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t size = 0;

	if (dir_fd < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		ssize_t n = fd_read_text(dir_fd, shown[i], text + size, SHOWN_MAX - size);
		if (n < 0 && n != -ENOENT)
			return 0;
		size += n > 0 ? (size_t)n : 0;
	}
	return size;
}

static int make(struct nets *n, int *ret_fd, struct err *err)
{
	int r = bring_up_lo(err);

	if (r == 0 && n->pristine_size == 0)
		n->pristine_size = look(n->pristine);
	return r < 0 ? r : open_current(ret_fd, err);
}

int nets_take(struct nets *n, int *ret_fd, struct err *err)
{
	if (n->n_clean > 0) {
		*ret_fd = n->clean[--n->n_clean];
		return 0;
	}
	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(err, "make a network namespace");
	int r = make(n, ret_fd, err);
	nets_leave(n);
	return r;
}

static bool is_pristine(struct nets *n, int fd)
{
	if (n->pristine_size == 0 || nets_enter(fd) < 0)
		return false;
	size_t size = look(n->seen);
	nets_leave(n);
	return size == n->pristine_size && memcmp(n->seen, n->pristine, size) == 0;
}

/* Its descriptor has a time of its last change, which anybody in it can set: to now. */
static bool wipe(int fd)
{
	return fchown(fd, (uid_t)-1, (gid_t)-1) == 0;
}

void nets_give(struct nets *n, int fd)
{
	if (n->n_clean < NETS_MAX && is_pristine(n, fd) && wipe(fd))
		n->clean[n->n_clean++] = fd;
	else
		(void)close(fd);
}

size_t nets_count(const struct nets *n)
{
	return n->n_clean;
}

int nets_enter(int fd)
{
	return setns(fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

void nets_leave(const struct nets *n)
{
	/* Sockets of a keeper that stayed would be visible to a guest. */
	if (setns(n->home_fd, CLONE_NEWNET) < 0)
		abort();
}
