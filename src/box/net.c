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
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

/* What the kernel counts and lists for a network namespace. Not all of it is there on every
 * host; what is missing must be missing always. */
static const char *const shown[] = { "dev", "snmp", "snmp6", "netstat", "unix", "ip6_flowlabel",
	"rt6_stats" };

/* All that comes late is a packet, and the first of these files counts them. */
#define SHOWN_LATE 1u

/* What can be asked of a route that somebody used is how long ago that was, though he sent
 * nothing. For IPv6 the route is counted; for IPv4 it is forgotten by writing here. */
#define FORGET_ROUTES "/proc/sys/net/ipv4/route/flush"

/* More than these are on any kernel as long as nothing happens. */
#define SHOWN_MAX (64u << 10)

#define SETTLE_NS (NETS_SETTLE_MS * UINT64_C(1000000))

/* Of that many namespaces at most the files stay open, so that the next look at them is cheap. They
 * are used in turn: if this were fewer than are about, each would be closed before it is next. */
#define VIEWS_MAX NETS_MAX

/* The files that show a namespace. Once open they show that one, wherever we are, and keep its
 * number from being given to another. */
struct view {
	ino_t number;
	int fds[ARRAY_SIZE(shown)]; /* -1: not on this host */
	int forget_fd;
};

struct clean {
	int fd;
	uint64_t since_ns;
};

struct nets {
	int home_fd;
	struct clean clean[NETS_MAX]; /* that given last comes last */
	size_t n_clean;
	size_t clean_max;
	struct view views[VIEWS_MAX]; /* that looked at last comes first */
	size_t n_views;
	size_t views_max;
	char *pristine; /* what a new one shows */
	size_t pristine_size;
	size_t late_size; /* of those files which show what comes late */
	char *seen;       /* room for what another shows */
};

static int open_current(int *ret_fd, struct err *err)
{
	*ret_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? err_errno(err, "open /proc/self/ns/net") : 0;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void close_view(struct view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(v->fds); i++)
		close_fdp(&v->fds[i]);
	close_fdp(&v->forget_fd);
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
	(*ret)->clean_max = min_size(NETS_MAX, fd_count_spare());
	(*ret)->views_max = min_size(VIEWS_MAX, fd_count_spare() / (ARRAY_SIZE(shown) + 1));
	(*ret)->pristine = xcalloc(1, SHOWN_MAX);
	(*ret)->seen = xcalloc(1, SHOWN_MAX);
	return 0;
}

void nets_free(struct nets *n)
{
	if (!n)
		return;
	while (n->n_clean > 0)
		(void)close(n->clean[--n->n_clean].fd);
	while (n->n_views > 0)
		close_view(&n->views[--n->n_views]);
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

/* Of here, where we are. False when it can not be told what shows here. */
static bool open_view(struct view *v)
{
	AUTO_FD dir_fd = open("/proc/self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool ok = dir_fd >= 0;

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		v->fds[i] = ok ? openat(dir_fd, shown[i], O_RDONLY | O_CLOEXEC) : -1;
		ok = ok && (v->fds[i] >= 0 || errno == ENOENT);
	}
	v->forget_fd = open(FORGET_ROUTES, O_WRONLY | O_CLOEXEC);
	return ok && v->forget_fd >= 0;
}

/* What the first `n_files` show now; 0 when it does not fit. */
static size_t read_view(const struct view *v, size_t n_files, char *text)
{
	size_t size = 0;

	for (size_t i = 0; i < n_files; i++) {
		if (v->fds[i] < 0)
			continue;
		ssize_t n = fd_reread_text(v->fds[i], text + size, SHOWN_MAX - size);
		if (n < 0)
			return 0;
		size += (size_t)n;
	}
	return size;
}

/* Remember what shows here, where we are; nothing when it can not be told. */
static void look_at_new(struct nets *n)
{
	CLEANUP(close_view) struct view v;

	if (!open_view(&v))
		return;
	n->late_size = read_view(&v, SHOWN_LATE, n->pristine);
	n->pristine_size = read_view(&v, ARRAY_SIZE(shown), n->pristine);
}

static int make(struct nets *n, int *ret_fd, struct err *err)
{
	int r = bring_up_lo(err);

	if (r == 0 && n->pristine_size == 0)
		look_at_new(n);
	return r < 0 ? r : open_current(ret_fd, err);
}

/* What is missing now may be there the next time: then it has to be looked for again. */
static bool is_whole(const struct view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(v->fds); i++) {
		if (v->fds[i] < 0)
			return false;
	}
	return true;
}

/* Put it first, where it is the last to be closed when there are too many. */
static void keep_view(struct nets *n, const struct view *v)
{
	if (n->n_views == n->views_max)
		close_view(&n->views[--n->n_views]);
	memmove(n->views + 1, n->views, n->n_views++ * sizeof(*v));
	n->views[0] = *v;
}

static bool take_view(struct nets *n, ino_t number, struct view *ret)
{
	for (size_t i = 0; i < n->n_views; i++) {
		if (n->views[i].number != number)
			continue;
		*ret = n->views[i];
		memmove(n->views + i, n->views + i + 1, (--n->n_views - i) * sizeof(*ret));
		return true;
	}
	return false;
}

static ino_t number_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

static bool take_or_open_view(struct nets *n, int fd, struct view *ret)
{
	struct view v = { .number = number_of(fd) };

	if (take_view(n, v.number, ret))
		return true;
	if (v.number == 0 || nets_enter(fd) < 0)
		return false;
	bool ok = open_view(&v);
	nets_leave(n);
	if (ok)
		*ret = v;
	else
		close_view(&v);
	return ok;
}

/* Whether the first `n_files` show what they showed when they were new, of `wanted` bytes. */
static bool is_pristine(struct nets *n, int fd, size_t n_files, size_t wanted)
{
	struct view v;

	if (wanted == 0 || !take_or_open_view(n, fd, &v))
		return false;
	size_t size = read_view(&v, n_files, n->seen);
	bool is_same = size == wanted && memcmp(n->seen, n->pristine, size) == 0 &&
		       pwrite(v.forget_fd, "1", 1, 0) == 1;
	if (is_same && is_whole(&v) && n->views_max > 0)
		keep_view(n, &v);
	else
		close_view(&v);
	return is_same;
}

/* Its descriptor has a time of its last change, which anybody in it can set: to now. */
static bool wipe(int fd)
{
	return fchown(fd, (uid_t)-1, (gid_t)-1) == 0;
}

static void drop(struct nets *n, int fd)
{
	struct view v;

	if (take_view(n, number_of(fd), &v))
		close_view(&v);
	(void)close(fd);
}

void nets_give(struct nets *n, int fd)
{
	if (n->n_clean < n->clean_max && is_pristine(n, fd, ARRAY_SIZE(shown), n->pristine_size) &&
		wipe(fd))
		n->clean[n->n_clean++] = (struct clean){ fd, clock_monotonic_ns() };
	else
		drop(n, fd);
}

/* That given last among those that have settled, since its files are likely to be open still. */
static bool take_clean(struct nets *n, int *ret_fd)
{
	uint64_t now = clock_monotonic_ns();

	for (size_t i = n->n_clean; i-- > 0;) {
		int fd = n->clean[i].fd;

		if (now - n->clean[i].since_ns < SETTLE_NS)
			continue;
		memmove(n->clean + i, n->clean + i + 1, (--n->n_clean - i) * sizeof(n->clean[0]));
		if (is_pristine(n, fd, SHOWN_LATE, n->late_size)) {
			*ret_fd = fd;
			return true;
		}
		drop(n, fd);
	}
	return false;
}

int nets_take(struct nets *n, int *ret_fd, struct err *err)
{
	if (take_clean(n, ret_fd))
		return 0;
	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(err, "make a network namespace");
	int r = make(n, ret_fd, err);
	nets_leave(n);
	return r;
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
