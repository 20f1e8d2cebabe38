#include "box/net.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

struct nets {
	int home_fd;
	int clean[NETS_MAX];
	size_t n_clean;
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
	return 0;
}

void nets_free(struct nets *n)
{
	if (!n)
		return;
	while (n->n_clean > 0)
		(void)close(n->clean[--n->n_clean]);
	(void)close(n->home_fd);
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

int nets_take(struct nets *n, int *ret_fd, struct err *err)
{
	AUTO_FD fd = -1;

	if (n->n_clean > 0) {
		*ret_fd = n->clean[--n->n_clean];
		return 0;
	}
	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(err, "make a network namespace");
	int r = bring_up_lo(err);
	if (r == 0)
		r = open_current(&fd, err);
	nets_leave(n);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

size_t nets_count(const struct nets *n)
{
	return n->n_clean;
}

void nets_give(struct nets *n, int fd)
{
	if (n->n_clean < NETS_MAX)
		n->clean[n->n_clean++] = fd;
	else
		(void)close(fd);
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
