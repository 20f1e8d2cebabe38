#include "box/maker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/box.h"
#include "box/program.h"
#include "box/root.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"

#define CONTROL_FD 3

/* One that does not answer for that long will not. */
#define DISMISS_SECONDS 1

/* What each order has; a cgroup to be cloned into comes next, then entrances. */
enum { MOUNTS, NETWORK, INIT, FIXED };

/* Each order has its answer: one that can not be given would be taken for that of the next. */
static void answer(uint32_t type, const struct put *p, const int *fds, size_t n_fds)
{
	if (frame_send(CONTROL_FD, type, p, fds, n_fds) < 0)
		_exit(1);
}

static void say_failed(const char *text)
{
	struct put p;

	put_init(&p, FRAME_SIZE_MAX);
	put_str(&p, text);
	answer(MESSAGE_MAKER_FAILED, &p, NULL, 0);
	put_fini(&p);
}

static void say_made(const struct box *box)
{
	struct put p;

	put_init(&p, 64);
	put_u32(&p, (uint32_t)box->pid);
	answer(MESSAGE_MAKER_BOX, &p, &box->pid_fd, 1);
	put_fini(&p);
}

static void make(const struct box_host *host, const struct frame *f)
{
	struct err err = { 0 };
	struct root root = { .ns_fd = f->fds[MOUNTS] };
	struct box box = { .pid_fd = -1, .control_fd = -1, .net_fd = f->fds[NETWORK] };
	struct cur c;

	cur_init(&c, f->data, f->size);
	uid_t uid = cur_u32(&c);
	uint8_t seal = cur_u8(&c);
	size_t n_cgroups = cur_bool(&c) ? 1 : 0;
	if (cur_end(&c) < 0 || seal >= SEAL_COUNT || f->n_fds < FIXED + n_cgroups) {
		say_failed("the keeper's word is not understood");
		return;
	}
	struct box_order order = {
		.root = &root,
		.join_fds = f->fds + FIXED + n_cgroups,
		.n_join_fds = f->n_fds - FIXED - n_cgroups,
		.cgroup_fd = n_cgroups ? f->fds[FIXED] : -1,
		.uid = uid,
		.seal = (enum seal)seal,
	};
	if (box_clone(host, &order, f->fds[INIT], &box, &err) < 0)
		say_failed(err.text);
	else
		say_made(&box);
	close_fdp(&box.pid_fd);
}

/* Keep the socket alone, and a home of our own: see box_host_adopt(). Its boxes need not
 * forget the keeper's arguments any more. */
static bool settle(struct box_host *host, int control_fd)
{
	struct err err = { 0 };

	if (program_forget_arguments(&err) < 0 || prctl(PR_SET_NAME, "belljar-maker") < 0 ||
		(control_fd != CONTROL_FD && dup3(control_fd, CONTROL_FD, O_CLOEXEC) < 0) ||
		syscall(SYS_close_range, CONTROL_FD + 1, ~0u, 0u) < 0)
		return false;
	host->clone_flags = CLONE_PARENT;
	host->home_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	return host->home_ns_fd >= 0 && box_host_adopt(host, &err) == 0;
}

/* End with the keeper. The kernel forgets that whenever we are another user for a moment, as for
 * each box, and does not say that it happened meanwhile. */
static bool depend_on(pid_t keeper)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == keeper;
}

/* Until the keeper closes its end. */
static _Noreturn void serve(struct box_host host, int control_fd, pid_t keeper)
{
	static uint8_t buffer[FRAME_SIZE_MAX];
	struct frame f;

	if (!settle(&host, control_fd))
		_exit(1);
	while (depend_on(keeper) && frame_recv(CONTROL_FD, buffer, &f) == 1) {
		if (f.type == MESSAGE_MAKER_MAKE)
			make(&host, &f);
		frame_close_fds(&f);
	}
	_exit(0);
}

int maker_start(const struct box_host *host, struct maker *ret, struct err *err)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "make a socket for the maker of boxes");
	AUTO_FD ours = ends[0];
	AUTO_FD theirs = ends[1];
	pid_t keeper = getpid();
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "start the maker of boxes");
	if (pid == 0)
		serve(*host, theirs, keeper);
	(void)fd_set_nonblock(ours, true);
	*ret = (struct maker){ .pid = pid, .control_fd = take_fd(&ours) };
	return 0;
}

int maker_ask(const struct maker *m, const struct box_order *order, const struct box *box,
	int init_fd, struct err *err)
{
	int fds[FRAME_FDS_MAX] = {
		[MOUNTS] = order->root->ns_fd, [NETWORK] = box->net_fd, [INIT] = init_fd
	};
	size_t n = FIXED;
	struct put p;

	if (order->cgroup_fd >= 0)
		fds[n++] = order->cgroup_fd;
	for (size_t i = 0; i < order->n_join_fds; i++) {
		if (order->join_fds[i] < 0)
			continue;
		if (n == FRAME_FDS_MAX)
			return err_set(err, -EMFILE, "a box has too many cgroups");
		fds[n++] = order->join_fds[i];
	}
	put_init(&p, 64);
	put_u32(&p, order->uid);
	put_u8(&p, (uint8_t)order->seal);
	put_u8(&p, order->cgroup_fd >= 0);
	int r = frame_send(m->control_fd, MESSAGE_MAKER_MAKE, &p, fds, n);
	put_fini(&p);
	return r < 0 ? err_set(err, r, "ask the maker of boxes: %s", strerror(-r)) : 0;
}

static int read_made(struct frame *f, struct cur *c, struct box *box, struct err *err)
{
	pid_t pid = (pid_t)cur_u32(c);

	if (cur_end(c) < 0 || f->n_fds > 1 || pid <= 0)
		return err_set(err, -EBADMSG, "the maker of boxes is not understood");
	box->pid = pid;
	/* It is our child: until we reap it, its number is no other's. */
	box->pid_fd = f->n_fds == 1 ? take_fd(&f->fds[0]) : (int)syscall(SYS_pidfd_open, pid, 0);
	if (box->pid_fd >= 0)
		return 1;
	(void)kill(pid, SIGKILL);
	return err_set(err, -ECANCELED, "no descriptor is left for a box");
}

int maker_hear(const struct maker *m, uint8_t *buffer, struct box *box, struct err *err)
{
	struct frame f;
	struct cur c;

	int r = frame_recv_lossy(m->control_fd, buffer, &f);
	if (r == -EAGAIN)
		return 0;
	if (r != 1)
		return err_set(err, r < 0 ? r : -EPIPE, "the maker of boxes is gone");
	cur_init(&c, f.data, f.size);
	if (f.type == MESSAGE_MAKER_BOX) {
		r = read_made(&f, &c, box, err);
	} else {
		AUTO_FREE char *why = cur_str(&c, FRAME_SIZE_MAX);

		r = err_set(err, -ECANCELED, "%s", why ? why : "");
	}
	frame_close_fds(&f);
	return r;
}

void maker_dismiss(const struct maker *m)
{
	const struct timeval moment = { .tv_sec = DISMISS_SECONDS };

	(void)setsockopt(m->control_fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
	(void)fd_set_nonblock(m->control_fd, false);
	(void)shutdown(m->control_fd, SHUT_WR);
}

void maker_kill(const struct maker *m)
{
	if (m->pid > 0)
		(void)kill(m->pid, SIGKILL);
}

bool maker_reap(struct maker *m, bool wait)
{
	if (m->pid > 0 && waitpid(m->pid, NULL, wait ? 0 : WNOHANG) == 0)
		return false;
	m->pid = 0;
	return true;
}

void maker_fini(struct maker *m)
{
	maker_kill(m);
	(void)maker_reap(m, true);
	close_fdp(&m->control_fd);
}
