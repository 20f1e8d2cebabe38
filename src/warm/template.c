/* Two processes make a template. The first loads the interpreter and forks once: imports may have
 * started threads, whose libraries know how to survive a fork, and not how to survive a
 * clone3() of ours. It stays as the parent of all boxes, as process 1 of their pid namespace
 * must outlive them, and has nothing to do but reap. The second serves the keeper, and ends
 * when the keeper wants no more boxes of it. */
#include "warm/template.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "box/box.h"
#include "box/net.h"
#include "box/root.h"
#include "box/template.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "warm/python.h"
#include "warm/title.h"

#define NOTES_SIZE 2048

static uint8_t buffer[FRAME_SIZE_MAX];
static struct box_host host;
static struct root root = { .image = "host", .ns_fd = -1, .rootfs_fd = -1 };

static void say(uint32_t type, const char *text, const int *fds, size_t n_fds)
{
	struct put p;

	put_init(&p, FRAME_SIZE_MAX);
	put_str(&p, text);
	/* Or the answer to the next order would be taken for this one. */
	if (frame_send(TEMPLATE_CONTROL_FD, type, &p, fds, n_fds) < 0)
		_exit(1);
	put_fini(&p);
}

/* What the keeper found out about the host, and what to import. */
static int read_setup(const struct frame *f, char **ret_imports, struct err *err)
{
	struct cur c;

	cur_init(&c, f->data, f->size);
	host.privileged = cur_bool(&c);
	host.landlock_abi = (int)cur_u32(&c);
	*ret_imports = cur_str(&c, FRAME_SIZE_MAX);
	size_t n = (size_t)cur_u64_max(&c, BPF_MAXINSNS);
	struct sock_filter *code = xcalloc(n + 1, sizeof(*code));
	for (size_t i = 0; i < n; i++) {
		uint64_t word = cur_u64(&c);
		memcpy(&code[i], &word, sizeof(code[i]));
	}
	host.filter = (struct seccomp_program){ code, n };
	if (cur_end(&c) < 0 || n == 0)
		return err_set(err, -EBADMSG, "the keeper's word is not understood");
	return 0;
}

static int set_up(const char *program, struct err *err)
{
	AUTO_FREE char *imports = NULL;
	char notes[NOTES_SIZE];
	struct frame f;

	if (frame_recv(TEMPLATE_CONTROL_FD, buffer, &f) != 1 || f.type != MESSAGE_TEMPLATE_SETUP)
		return err_set(err, -EPIPE, "the keeper is gone");
	root.ns_fd = f.n_fds > 0 ? take_fd(&f.fds[0]) : -1;
	frame_close_fds(&f);
	int r = read_setup(&f, &imports, err);
	if (r == 0)
		r = python_load(program, imports, notes, sizeof(notes), err);
	if (r == 0)
		r = box_host_adopt(&host, err);
	if (r == 0)
		say(MESSAGE_TEMPLATE_READY, notes, NULL, 0);
	return r;
}

static void make(struct frame *f)
{
	struct err err = { 0 };
	struct box box = { .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	struct cur c;

	cur_init(&c, f->data, f->size);
	struct box_order order = {
		.root = &root,
		.join_fds = f->fds,
		.n_join_fds = f->n_fds,
		.cgroup_fd = -1,
		.uid = cur_u32(&c),
		.seal = (enum seal)cur_u8(&c),
	};
	int r = order.seal < SEAL_COUNT ? cur_end(&c) : -EBADMSG;
	if (r == 0)
		r = box_start(&host, &order, &box, &err);
	if (r < 0) {
		say(MESSAGE_TEMPLATE_FAILED, err.text, NULL, 0);
		return;
	}
	int fds[] = { box.control_fd, box.pid_fd, box.net_fd };
	say(MESSAGE_TEMPLATE_BOX, "", fds, ARRAY_SIZE(fds));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
}

static void serve(void)
{
	struct frame f;

	while (frame_recv(TEMPLATE_CONTROL_FD, buffer, &f) == 1) {
		if (f.type == MESSAGE_TEMPLATE_MAKE)
			make(&f);
		else if (f.type == MESSAGE_TEMPLATE_NET && f.n_fds == 1)
			nets_give(host.nets, take_fd(&f.fds[0]));
		frame_close_fds(&f);
	}
}

/* Until the server has ended and no box is left. */
static void reap_all(void)
{
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

int template_main(const char *program)
{
	struct err err = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)fcntl(TEMPLATE_CONTROL_FD, F_SETFD, FD_CLOEXEC);
	(void)close(TEMPLATE_LIBRARY_FD);
	(void)unsetenv("LD_PRELOAD");
	(void)unsetenv("LD_BIND_NOW");
	title_prepare();
	host.home_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	host.clone_guest = python_start_guest;
	host.clone_flags = CLONE_PARENT;
	if (set_up(program, &err) < 0) {
		say(MESSAGE_TEMPLATE_FAILED, err.text, NULL, 0);
		return EXIT_FAILURE;
	}
	pid_t server = python_fork();
	if (server == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		serve();
		_exit(0);
	}
	(void)close(TEMPLATE_CONTROL_FD);
	reap_all();
	_exit(server < 0 ? EXIT_FAILURE : 0);
}
