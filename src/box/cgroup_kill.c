/* Killing what is listed in a group, where the kernel has no cgroup.kill. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"

/* Text of cgroup.procs: 128 thousand processes of seven digits. */
#define PROCS_MAX (1u << 20)

/* Descriptors held at once while processes are being signalled. */
#define BATCH 64

/* With pids.max at zero one round does it; without, each one catches those that
 * were forked during the one before. */
#define KILL_ROUNDS 16

struct pid_list {
	pid_t *pids; /* sorted */
	size_t n;
};

static void pid_list_fini(struct pid_list *l)
{
	free(l->pids);
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a;
	pid_t y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static bool pid_list_has(const struct pid_list *l, pid_t pid)
{
	return l->n > 0 && bsearch(&pid, l->pids, l->n, sizeof(pid), compare_pids);
}

/* The file must be opened anew each time: v1 shows an open one as it was. */
static int pid_list_read(struct pid_list *ret, int dir_fd)
{
	AUTO_FD fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *text = NULL;
	size_t size = 0;

	if (fd < 0)
		return -errno;
	int r = fd_read_all(fd, PROCS_MAX, &text, &size);
	if (r < 0)
		return r;

	struct pid_list l = { calloc(size / 2 + 1, sizeof(pid_t)), 0 };
	if (!l.pids)
		return -ENOMEM;
	char *rest = text;
	for (const char *word = NULL; (word = strsep(&rest, "\n"));) {
		uint64_t pid = 0;

		/* zero is a process that our pid namespace can not name */
		if (str_parse_u64(word, INT32_MAX, &pid) == 0 && pid > 0)
			l.pids[l.n++] = (pid_t)pid;
	}
	qsort(l.pids, l.n, sizeof(pid_t), compare_pids);
	*ret = l;
	return 0;
}

/* Signal some of the listed. Between the listing and the opening of a pidfd the
 * number may have passed to a stranger; so the group is listed once more, and
 * only who is still in it then is who we have hold of. */
static int kill_batch(int dir_fd, const pid_t *pids, size_t n)
{
	CLEANUP(pid_list_fini) struct pid_list now = { 0 };
	int fds[BATCH];

	for (size_t i = 0; i < n; i++)
		fds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
	int r = pid_list_read(&now, dir_fd);
	for (size_t i = 0; i < n; i++) {
		if (r == 0 && fds[i] >= 0 && pid_list_has(&now, pids[i]))
			(void)syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL, 0);
		close_fdp(&fds[i]);
	}
	return r;
}

static int kill_list(int dir_fd, const struct pid_list *l)
{
	for (size_t i = 0; i < l->n; i += BATCH) {
		size_t n = l->n - i < BATCH ? l->n - i : BATCH;
		int r = kill_batch(dir_fd, l->pids + i, n);

		if (r < 0)
			return r;
	}
	return 0;
}

static bool is_subset(const struct pid_list *l, const struct pid_list *of)
{
	for (size_t i = 0; i < l->n; i++)
		if (!pid_list_has(of, l->pids[i]))
			return false;
	return true;
}

int cgroup_kill_listed(int dir_fd)
{
	CLEANUP(pid_list_fini) struct pid_list killed = { 0 };

	for (int i = 0; i < KILL_ROUNDS; i++) {
		struct pid_list listed = { 0 };
		int r = pid_list_read(&listed, dir_fd);

		if (r == 0 && pid_list_has(&listed, getpid()))
			r = -EDEADLK;
		if (r < 0 || is_subset(&listed, &killed)) {
			pid_list_fini(&listed);
			return r;
		}
		r = kill_list(dir_fd, &listed);
		pid_list_fini(&killed);
		killed = listed;
		if (r < 0)
			return r;
		(void)sched_yield();
	}
	return -EAGAIN;
}
