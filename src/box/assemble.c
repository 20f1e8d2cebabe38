#include "box/assemble.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/clone.h"

int assemble_leave_host(int root_fd, struct err *err)
{
	if (fchdir(root_fd) < 0)
		return err_errno(err, "enter the new root");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_errno(err, "detach the old root");
	return chdir("/") < 0 ? err_errno(err, "enter /") : 0;
}

/* The process that assembles: tells how it went, and keeps the namespace alive
 * until the keeper has a descriptor of it and closes its end. */
static _Noreturn void assembler_main(
	int (*prepare)(void *ctx, struct err *err), void *ctx, int report_fd, int hold_fd)
{
	struct err err = { 0 };
	char byte;

	(void)umask(022);
	/* A keeper of root's is not dumpable once it has changed its user to make a box; without
	 * CAP_SYS_PTRACE it could then not open what is in our /proc, though it is our own. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		(void)err_errno(&err, "detach from the host's mounts");
	else
		(void)prepare(ctx, &err);
	if (fd_write_full(report_fd, &err, sizeof(err)) == 0)
		(void)fd_read_full(hold_fd, &byte, 1);
	_exit(0);
}

static int open_namespace(pid_t pid, int report_fd, int *ret, struct err *err)
{
	char path[32];
	struct err reported;

	if (fd_read_full(report_fd, &reported, sizeof(reported)) != (ssize_t)sizeof(reported))
		return err_set(err, -EIO, "the assembling process died");
	if (reported.code < 0) {
		if (err)
			*err = reported;
		return reported.code;
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open %s", path);
	*ret = fd;
	return 0;
}

int assemble_namespace(
	int (*prepare)(void *ctx, struct err *err), void *ctx, int *ret_ns_fd, struct err *err)
{
	AUTO_FD report_read = -1, report_write = -1, hold_read = -1, hold_write = -1;
	int r = fd_pipe(&report_read, &report_write);

	if (r == 0)
		r = fd_pipe(&hold_read, &hold_write);
	if (r < 0)
		return err_set(err, r, "make a pipe");
	pid_t pid = clone_process(CLONE_NEWNS, -1, NULL);
	if (pid < 0)
		return err_errno(err, "make a mount namespace");
	if (pid == 0) {
		close_fdp(&hold_write);
		assembler_main(prepare, ctx, report_write, hold_read);
	}
	close_fdp(&report_write);
	r = open_namespace(pid, report_read, ret_ns_fd, err);
	close_fdp(&hold_write);
	(void)waitpid(pid, NULL, 0);
	return r;
}
