/* Theory of operation. Init is a clone of the keeper that never executes another
 * program. Its life:
 *
 *   early steps -> wait for the specification -> own steps -> sealing steps
 *     -> take files in -> start the guest -> reap until the guest ends -> kill and reap the rest
 *     -> report -> send files and their names out -> exit
 *
 * One that is for a run without steps of its own is sealed before it waits.
 *
 * The end of the guest is the end of the run: whoever is left, daemons and
 * orphans included, is killed before anything is reported. When the keeper goes
 * away the control socket ends, init exits, and the kernel kills the rest, since
 * a pid namespace does not outlive its process 1.
 *
 * The guest runs under the same uid, and can not touch init all the same: signals
 * from inside are ignored by the kernel, and its memory is not dumpable. */
#include "box/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "box/box.h"
#include "box/cgroup.h"
#include "box/files.h"
#include "box/guest.h"
#include "box/list.h"
#include "box/program.h"
#include "box/sample.h"
#include "box/step.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/result.h"
#include "ipc/spec.h"

#define CONTROL_FD 3

struct init {
	const struct init_args *args;
	struct spec spec;
	int fds[CHANNEL_COUNT]; /* the box's ends; -1 for none */
	int workspace_fd;       /* mount of a session's workspace; -1 for none */
	int signal_fd;
	pid_t guest;
	int status; /* of the guest, as wait() gives it */
	uint64_t ended_ns;
	struct sample sample;
	struct list_mark mark; /* before the guest began */
	uint64_t early;        /* signals that came before the guest, as bits */
};

static uint8_t buffer[FRAME_SIZE_MAX];

/* The keeper's end of it is our life; it moves to CONTROL_FD early on. */
static int control_fd = -1;

struct step {
	const char *name;
	step_fn *run;
};

/* From a fresh clone to a confined process, in the only safe order. First what
 * every run needs alike, ahead of any; */
static const struct step early_steps[] = {
	{ "cgroup", cgroup_enter }, /* the group joined before becomes the root */
	{ "user", user_enter },     /* the rest needs this user's capabilities */
	{ "mount", mount_enter },
	{ "name", name_enter },
	{ "bounds", bounds_enter },
};

/* then, with a specification at hand, what only some runs need; */
static const struct step own_steps[] = {
	{ "workspace", workspace_enter }, { "tty", tty_enter }, /* from the devpts just mounted */
};

/* and last what makes it a prison: ahead of any run as well, if it is for one without own steps. */
static const struct step sealing_steps[] = {
	{ "capabilities", caps_enter }, /* no mount, no user, no name after this */
	{ "landlock", landlock_enter }, /* needs no_new_privs, set above */
	{ "seccomp", seccomp_enter },   /* last: it forbids all of the above */
};

int cgroup_enter(struct step_context *c, struct err *err)
{
	(void)c;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_errno(err, "make a cgroup namespace");
	return 0;
}

int name_enter(struct step_context *c, struct err *err)
{
	(void)c;
	return sethostname("box", 3) < 0 ? err_errno(err, "set the host name") : 0;
}

int seccomp_enter(struct step_context *c, struct err *err)
{
	return seccomp_install(&c->host->filter, err);
}

static void report_failure(enum reason reason, const struct err *err)
{
	struct put p;

	put_init(&p, FRAME_SIZE_MAX);
	put_u32(&p, (uint32_t)reason);
	put_u32(&p, (uint32_t)-err->code);
	put_str(&p, err->text);
	(void)frame_send(control_fd, MESSAGE_BOX_FAILED, &p, NULL, 0);
}

static _Noreturn void give_up(enum reason reason, int code, struct err *err)
{
	err->code = code;
	report_failure(reason, err);
	_exit(1);
}

/* The control socket stays, at a known number. Everything else of the keeper's
 * goes: its sockets, other boxes' descriptors, its stdin, stdout and stderr. */
static int drop_descriptors(struct err *err)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null_fd < 0)
		return err_errno(err, "open /dev/null");
	for (int fd = 0; fd < CONTROL_FD; fd++) {
		if (dup2(null_fd, fd) < 0)
			return err_errno(err, "replace descriptor %d", fd);
	}
	if (control_fd != CONTROL_FD && dup3(control_fd, CONTROL_FD, O_CLOEXEC) < 0)
		return err_errno(err, "move the control socket");
	control_fd = CONTROL_FD;
	if (syscall(SYS_close_range, CONTROL_FD + 1, ~0u, 0u) < 0)
		return err_errno(err, "close descriptors");
	return 0;
}

static void block_signals(void)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
}

static int read_spec(struct init *in)
{
	struct frame f;
	struct cur c;
	size_t n = 0;

	if (frame_recv(control_fd, buffer, &f) != 1 || f.type != MESSAGE_BOX_SPEC)
		return -EBADMSG;
	cur_init(&c, f.data, f.size);
	spec_get(&in->spec, &c);
	uint32_t mask = cur_u32(&c);
	for (size_t i = 0; i < CHANNEL_COUNT; i++) {
		in->fds[i] = -1;
		if ((mask & (1u << i)) && n < f.n_fds)
			in->fds[i] = take_fd(&f.fds[n++]);
	}
	in->workspace_fd = in->spec.workspace[0] && n < f.n_fds ? take_fd(&f.fds[n]) : -1;
	frame_close_fds(&f);
	explicit_bzero(buffer, (size_t)(f.data - buffer) + f.size);
	return cur_end(&c);
}

static int run_steps(struct step_context *c, const struct step *steps, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = steps[i].run(c, err);
		if (r < 0)
			return err_wrap(err, r, steps[i].name);
	}
	return 0;
}

static void report_running(uint64_t at, bool is_clone)
{
	struct put p;

	put_init(&p, 64);
	put_u64(&p, at);
	put_u8(&p, is_clone);
	(void)frame_send(control_fd, MESSAGE_BOX_RUNNING, &p, NULL, 0);
	put_fini(&p);
}

static void start_guest(struct init *in)
{
	struct err err = { 0 };
	struct guest_fds fds = {
		.in = in->fds[CHANNEL_STDIN],
		.out = in->fds[CHANNEL_STDOUT],
		.err = in->fds[CHANNEL_STDERR],
		.tty = in->fds[CHANNEL_TTY],
		.reply = in->fds[CHANNEL_REPLY],
	};

	uint64_t at = clock_monotonic_ns();
	bool is_clone = false;
	start_guest_fn *clone_guest = in->args->host->clone_guest;
	in->guest = clone_guest ? clone_guest(&in->spec, &fds, &is_clone, &err)
				: guest_start(&in->spec, &fds, &err);
	if (in->guest < 0)
		give_up(REASON_EXEC_FAILED, (int)in->guest, &err);
	for (int i = CHANNEL_STDIN; i <= CHANNEL_TTY; i++)
		close_fdp(&in->fds[i]);
	close_fdp(&in->fds[CHANNEL_REPLY]);
	report_running(at, is_clone);
}

/* Collect every process that has ended; true once the guest is among them. */
static bool reap(struct init *in)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == in->guest) {
			in->ended_ns = clock_monotonic_ns();
			in->status = status;
			ended = true;
		}
	}
	return ended;
}

/* The next message of the keeper; its end is the end of all of us. */
static void hear(struct frame *ret)
{
	if (frame_recv(control_fd, buffer, ret) != 1)
		_exit(1);
}

/* The signal that the message is about; 0 if it is none. */
static unsigned read_signal(const struct frame *f)
{
	struct cur c;

	if (f->type != MESSAGE_BOX_SIGNAL)
		return 0;
	cur_init(&c, f->data, f->size);
	unsigned sig = cur_u32(&c);
	return cur_end(&c) == 0 && sig <= 64 ? sig : 0;
}

static void obey(const struct init *in)
{
	struct frame f;

	hear(&f);
	frame_close_fds(&f);
	unsigned sig = read_signal(&f);
	if (f.type == MESSAGE_BOX_KILL)
		(void)kill(-1, SIGKILL);
	else if (sig)
		(void)kill(-in->guest, (int)sig); /* it leads its own group */
}

static void obey_early(const struct init *in)
{
	for (int sig = 1; sig <= 64; sig++) {
		if (in->early & (UINT64_C(1) << (sig - 1)))
			(void)kill(-in->guest, sig);
	}
}

/* Ask for the mount of the workspace, which the keeper can give us only now that we are
 * somebody. Signals for the guest may come before it, and wait for the guest. */
static void ask_for_workspace(struct init *in)
{
	struct frame f;

	if (frame_send(control_fd, MESSAGE_BOX_ASKS, NULL, NULL, 0) < 0)
		_exit(1);
	do {
		hear(&f);
		unsigned sig = read_signal(&f);
		if (sig)
			in->early |= UINT64_C(1) << (sig - 1);
		if (f.type == MESSAGE_BOX_WORKSPACE && f.n_fds == 1)
			in->workspace_fd = take_fd(&f.fds[0]);
		frame_close_fds(&f);
	} while (f.type != MESSAGE_BOX_WORKSPACE);
}

static void drain_signals(const struct init *in)
{
	struct signalfd_siginfo info[8];

	while (read(in->signal_fd, info, sizeof(info)) == (ssize_t)sizeof(info))
		;
}

static void wait_for_guest(struct init *in)
{
	struct pollfd fds[] = {
		{ .fd = CONTROL_FD, .events = POLLIN },
		{ .fd = in->signal_fd, .events = POLLIN },
	};

	while (!reap(in)) {
		int n = poll(fds, ARRAY_SIZE(fds), sample_wait_ms(&in->sample));

		if (sample_wait_ms(&in->sample) == 0)
			sample_take(&in->sample);
		if (n > 0 && fds[1].revents)
			drain_signals(in);
		if (n > 0 && fds[0].revents)
			obey(in);
	}
}

/* Everybody is init's child, or a child's: who has no child is alone, and spares the kernel to
 * look at each process of the machine. Nobody forks past the signal: it reaches all at once,
 * those half-forked included. Waiting ends when there is nobody left to wait for. */
static void end_the_rest(void)
{
	if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
		return;
	do {
		(void)kill(-1, SIGKILL);
	} while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
}

static void mark_files(struct init *in)
{
	AUTO_FD dir = -1;

	if (!in->spec.lists)
		return;
	dir = open("/workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		list_mark(&in->mark, dir);
}

static void run_guest(struct init *in)
{
	mark_files(in);
	start_guest(in);
	obey_early(in);
	wait_for_guest(in);
	end_the_rest();
}

static void report_end(const struct init *in)
{
	struct put p;
	struct rusage used = { 0 };

	(void)getrusage(RUSAGE_CHILDREN, &used);
	put_init(&p, 256);
	put_u64(&p, in->ended_ns);
	put_u32(&p, (uint32_t)in->status);
	put_u64(&p, (uint64_t)used.ru_utime.tv_sec * 1000000 + (uint64_t)used.ru_utime.tv_usec +
			    (uint64_t)used.ru_stime.tv_sec * 1000000 +
			    (uint64_t)used.ru_stime.tv_usec);
	put_u64(&p, (uint64_t)used.ru_maxrss * 1024);
	put_u64(&p, in->sample.open_files);
	put_u64(&p, in->sample.processes);
	(void)frame_send(control_fd, MESSAGE_BOX_EXITED, &p, NULL, 0);
	put_fini(&p);
}

/* What is to be heard of the workspace: the names of its files, and files. */
static int send_out(struct init *in, uint64_t *ret_bytes, struct err *err)
{
	const struct list_mark *mark = in->mark.at_ns ? &in->mark : NULL;
	int r = 0;

	if (in->fds[CHANNEL_LISTING] >= 0)
		r = list_send(in->fds[CHANNEL_LISTING], mark, in->spec.digests, err);
	close_fdp(&in->fds[CHANNEL_LISTING]);
	if (r == 0 && in->fds[CHANNEL_CAPTURE] >= 0)
		r = files_send_out(&in->spec, in->fds[CHANNEL_CAPTURE], ret_bytes, err);
	close_fdp(&in->fds[CHANNEL_CAPTURE]);
	return r;
}

/* All ends are closed when that is said: whoever hears it need not wait for our own. */
static void send_files_out(struct init *in)
{
	struct err err = { 0 };
	struct put p;
	uint64_t n_bytes = 0;

	int r = send_out(in, &n_bytes, &err);
	put_init(&p, 1024);
	put_u64(&p, n_bytes);
	/* A run is none the worse for files that it kept to itself. */
	put_u32(&p, r < 0 && in->spec.deed != DEED_EXECUTE ? (uint32_t)-r : 0);
	put_str(&p, r < 0 ? err.text : "");
	(void)frame_send(control_fd, MESSAGE_BOX_CAPTURED, &p, NULL, 0);
	put_fini(&p);
}

/* Before the first thing is asked of it: into the cgroup, so that all that follows
 * is charged to the box, and away from what the keeper holds open. */
static int settle(const struct init_args *args, struct err *err)
{
	int r = cgroup_join(args->join_fds, args->n_join_fds, err);

	return r < 0 ? r : drop_descriptors(err);
}

/* From now on the keeper's death is ours, even while we wait for somebody else.
 * Every change of user before this would have undone it. */
static void tie_to_keeper(void)
{
	struct pollfd control = { .fd = CONTROL_FD };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		_exit(1);
	if (poll(&control, 1, 0) > 0 && (control.revents & (POLLHUP | POLLERR)))
		_exit(1); /* it died before it could matter */
}

static int watch_children(void)
{
	sigset_t child;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Everything that does not depend on what is to be run. */
static void get_ready(struct init *in, struct step_context *c)
{
	struct err err = { 0 };
	int r = settle(in->args, &err);

	if (r == 0)
		r = run_steps(c, early_steps, ARRAY_SIZE(early_steps), &err);
	if (r == 0)
		r = program_forget_arguments(&err);
	/* Whoever made the box: a guest sees it in /proc/1. */
	if (r == 0 && prctl(PR_SET_NAME, "belljar-box") < 0)
		r = err_errno(&err, "set our name");
	if (r == 0)
		tie_to_keeper();
	if (r == 0 && (in->signal_fd = watch_children()) < 0)
		r = err_errno(&err, "watch children");
	if (r == 0)
		r = guest_set_bounds(&err);
	if (r == 0 && !in->args->host->clone_guest)
		guest_reset_handlers();
	if (r == 0 && in->args->seal != SEAL_NONE)
		r = run_steps(c, sealing_steps, ARRAY_SIZE(sealing_steps), &err);
	if (r < 0)
		give_up(REASON_PROVISION_FAILED, r, &err);
}

/* Everything that does, up to the guest. */
static void get_set(struct init *in, struct step_context *c)
{
	struct err err = { 0 };
	int r = 0;

	if (in->spec.workspace[0] && in->workspace_fd < 0)
		ask_for_workspace(in);
	if (in->spec.workspace[0] && in->workspace_fd < 0)
		r = err_set(&err, -EBADMSG, "the workspace did not come");
	c->workspace_fd = in->workspace_fd;
	if (r == 0)
		r = run_steps(c, own_steps, ARRAY_SIZE(own_steps), &err);
	if (r == 0 && in->args->seal == SEAL_NONE)
		r = run_steps(c, sealing_steps, ARRAY_SIZE(sealing_steps), &err);
	close_fdp(&in->workspace_fd);
	if (r == 0)
		r = files_make_good(&in->spec, &err);
	if (r == 0 && in->fds[CHANNEL_FILES] >= 0)
		r = files_take_in(&in->spec, in->fds[CHANNEL_FILES], &err);
	/* The guest does so too; but if it can not, that is not for want of a program. */
	if (r == 0 && chdir(in->spec.cwd) < 0)
		r = err_errno(&err, "enter the working directory '%.100s'", in->spec.cwd);
	if (r < 0)
		give_up(REASON_PROVISION_FAILED, r, &err);
	close_fdp(&in->fds[CHANNEL_FILES]);
	in->fds[CHANNEL_TTY] = c->tty_fd;
}

void init_main(const struct init_args *args)
{
	static struct init in;
	struct step_context c = {
		.host = args->host,
		.spec = &in.spec,
		.uid = args->uid,
		.gid = args->gid,
		.exec = args->seal == SEAL_EXEC,
		.control_fd = CONTROL_FD,
		.tty_fd = -1,
		.workspace_fd = -1,
	};

	block_signals();
	control_fd = args->control_fd;
	in.args = args;
	get_ready(&in, &c);
	if (read_spec(&in) < 0)
		_exit(1);
	get_set(&in, &c);
	sample_init(&in.sample);
	if (in.spec.deed == DEED_EXECUTE)
		run_guest(&in);
	else
		report_running(in.ended_ns = clock_monotonic_ns(), false);
	report_end(&in);
	if (in.fds[CHANNEL_CAPTURE] >= 0 || in.fds[CHANNEL_LISTING] >= 0)
		send_files_out(&in);
	_exit(0);
}
