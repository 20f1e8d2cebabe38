#include "box/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "ipc/spec.h"

#define STACK_SIZE (64u << 10)

/* Seconds of CPU time over the timeout, until the kernel steps in by itself. */
#define CPU_GRACE_SEC 2

/* What parent and child share while the child runs on borrowed memory. */
struct start {
	const struct spec *spec;
	const struct guest_fds *fds;
	const char *const *paths; /* candidates for the program, ends with NULL */
	int error;                /* errno of what failed */
	const char *failed;       /* and its name */
};

static uint64_t cpu_seconds(const struct limits *l)
{
	return (l->timeout_ms + 999) / 1000 * ((l->cpu_milli + 999) / 1000) + CPU_GRACE_SEC;
}

static uint64_t file_size(const struct limits *l)
{
	return l->workspace_bytes > l->tmp_bytes ? l->workspace_bytes : l->tmp_bytes;
}

static uint64_t processes(const struct limits *l)
{
	/* Where there is no pids controller this is the limit. Init counts as one, and is not
	 * the guest's. */
	return (l->processes < l->pids ? l->processes : l->pids) + 1;
}

struct bound {
	int resource;
	uint64_t value;
};

/* The same for every guest. RLIMIT_CORE is set by the keeper: see forbid_dumps(). */
static const struct bound common_bounds[] = {
	{ RLIMIT_MEMLOCK, 64 << 10 },
	{ RLIMIT_MSGQUEUE, 819200 },
	{ RLIMIT_SIGPENDING, 4096 },
	{ RLIMIT_NICE, 0 },
	{ RLIMIT_RTPRIO, 0 },
};

static bool set_rlimits(const struct bound *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct rlimit limit = { rows[i].value, rows[i].value };

		/* A host limit that is lower already stays. */
		if (setrlimit((__rlimit_resource_t)rows[i].resource, &limit) == 0)
			continue;
		struct rlimit now;
		if (errno != EPERM || getrlimit((__rlimit_resource_t)rows[i].resource, &now) < 0 ||
			now.rlim_max > rows[i].value)
			return false;
	}
	return true;
}

/* As many descriptors as a user has this limit can be in flight on AF_UNIX sockets, and each of his
 * processes counts them all against its own limit. The guests of a plain user are he himself: with
 * a limit as high as the keeper's they could use up what the keeper needs to hand over the next
 * run. One message takes up to 253 beyond the limit. */
#define FILES_KEPT 512u

static uint64_t files(const struct limits *l)
{
	struct rlimit now = { 0 };

	if (getrlimit(RLIMIT_NOFILE, &now) < 0)
		return l->files;
	uint64_t most =
		now.rlim_max > 2 * FILES_KEPT ? now.rlim_max - FILES_KEPT : now.rlim_max / 2;
	return l->files < most ? l->files : most;
}

static bool set_own_rlimits(const struct limits *l)
{
	const struct bound rows[] = {
		{ RLIMIT_NOFILE, files(l) },
		{ RLIMIT_NPROC, processes(l) },
		{ RLIMIT_CPU, cpu_seconds(l) },
		{ RLIMIT_FSIZE, file_size(l) },
	};

	return set_rlimits(rows, ARRAY_SIZE(rows));
}

int guest_set_bounds(struct err *err)
{
	return set_rlimits(common_bounds, ARRAY_SIZE(common_bounds)) ? 0
								     : err_errno(err, "set limits");
}

/* By system call: the C library keeps two signals to itself and does not let us at
 * them, but who started us may have them ignored, as make does. */
void guest_reset_handlers(void)
{
	static const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} standard; /* the kernel's own struct sigaction, with SIG_DFL */

	for (int sig = 1; sig < NSIG; sig++)
		(void)syscall(SYS_rt_sigaction, sig, &standard, NULL, sizeof(standard.mask));
}

void guest_unblock_signals(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* dup2() would leave one that has the number already with its close-on-exec. */
static bool give_reply(int fd)
{
	if (fd == SPEC_REPLY_FD)
		return fcntl(fd, F_SETFD, 0) == 0;
	return fd < 0 || dup2(fd, SPEC_REPLY_FD) == SPEC_REPLY_FD;
}

static bool set_descriptors(const struct guest_fds *f)
{
	if (f->tty >= 0) {
		if (ioctl(f->tty, TIOCSCTTY, 0) < 0)
			return false;
		return dup2(f->tty, 0) == 0 && dup2(f->tty, 1) == 1 && dup2(f->tty, 2) == 2;
	}
	return dup2(f->in, 0) == 0 && dup2(f->out, 1) == 1 && dup2(f->err, 2) == 2 &&
	       give_reply(f->reply);
}

/* All from `first` on but `keep_fd`, which is not below it. */
static bool close_others(unsigned first, int keep_fd)
{
	unsigned keep = keep_fd < 0 ? ~0u : (unsigned)keep_fd;

	if (keep > first && syscall(SYS_close_range, first, keep == ~0u ? keep : keep - 1, 0u) < 0)
		return false;
	return keep == ~0u || syscall(SYS_close_range, keep + 1, ~0u, 0u) == 0;
}

const char *guest_settle(const struct spec *spec, const struct guest_fds *fds, int keep_fd)
{
	if (setsid() < 0)
		return "start a session";
	if (!set_descriptors(fds))
		return "set up stdin, stdout and stderr";
	if (!close_others(fds->reply < 0 ? SPEC_REPLY_FD : SPEC_REPLY_FD + 1, keep_fd))
		return "close descriptors";
	if (chdir(spec->cwd) < 0)
		return "enter the working directory";
	(void)umask(022);
	return set_own_rlimits(&spec->limits) ? NULL : "set limits";
}

static int fail(struct start *s, const char *what)
{
	s->error = errno ? errno : EIO;
	s->failed = what;
	_exit(127);
}

/* Runs on the parent's memory while the parent sleeps, as after vfork: it must
 * not allocate, and it leaves by execve or _exit. */
static int guest_main(void *arg)
{
	struct start *s = arg;
	const char *failed = guest_settle(s->spec, s->fds, -1);

	if (failed)
		return fail(s, failed);
	guest_unblock_signals();
	int error = ENOENT;
	for (size_t i = 0; s->paths[i]; i++) {
		(void)execve(s->paths[i], s->spec->argv, s->spec->env);
		/* As execvp does: go on where this is not the program after all, and say of
		 * one that may not be executed that it may not, not that there is none. */
		if (error != EACCES)
			error = errno;
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
			error = errno;
			break;
		}
	}
	errno = error;
	return fail(s, "execute");
}

const char *guest_find_variable(const struct spec *spec, const char *name)
{
	for (size_t i = 0; spec->env[i]; i++) {
		const char *value = str_after(spec->env[i], name);

		if (value && *value == '=')
			return value + 1;
	}
	return NULL;
}

static void free_paths(char ***paths)
{
	for (size_t i = 0; *paths && (*paths)[i]; i++)
		free((*paths)[i]);
	free(*paths);
}

/* Where the program may be: itself, when it is a path, else one for each entry of
 * PATH that could hold it. */
static char **list_candidates(const struct spec *spec)
{
	const char *program = spec->argv[0];
	const char *path = guest_find_variable(spec, "PATH");
	size_t n = 2;

	if (!path)
		path = "/usr/local/bin:/usr/bin:/bin";
	for (const char *p = path; *p; p++)
		n += *p == ':';
	char **list = xcalloc(n + 1, sizeof(*list));
	if (strchr(program, '/')) {
		list[0] = xstrdup(program);
		return list;
	}
	size_t used = 0;
	for (const char *p = path;;) {
		size_t len = strcspn(p, ":");

		if (asprintf(&list[used], "%.*s/%s", len ? (int)len : 1, len ? p : ".", program) <
			0)
			abort();
		used++;
		p += len;
		if (!*p++)
			break;
	}
	return list;
}

bool guest_find_program(const struct spec *spec, char *buf, size_t size)
{
	CLEANUP(free_paths) char **paths = list_candidates(spec);

	for (size_t i = 0; paths[i]; i++) {
		if (access(paths[i], X_OK) == 0)
			return (size_t)snprintf(buf, size, "%s", paths[i]) < size;
	}
	return false;
}

/* Whether it would be executed but for the mount that it is on. */
static bool is_noexec(const char *path)
{
	struct stat st;
	struct statvfs fs;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) &&
	       statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOEXEC);
}

static bool is_on_noexec(const char *const *paths)
{
	while (*paths && !is_noexec(*paths))
		paths++;
	return *paths != NULL;
}

static int explain(const struct start *s, struct err *err)
{
	if (streq(s->failed, "execute") && s->error == EACCES && is_on_noexec(s->paths))
		return err_set(err, -EACCES, "cannot execute '%.80s': " SPEC_NOEXEC_HINT,
			s->spec->argv[0]);
	if (streq(s->failed, "execute"))
		return err_set(err, -s->error, "cannot execute '%s': %s", s->spec->argv[0],
			strerror(s->error));
	return err_set(err, -s->error, "cannot %s: %s", s->failed, strerror(s->error));
}

pid_t guest_start(const struct spec *spec, const struct guest_fds *fds, struct err *err)
{
	CLEANUP(free_paths) char **paths = list_candidates(spec);
	struct start s = { .spec = spec, .fds = fds, .paths = (const char *const *)paths };
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return err_errno(err, "make a stack");
	/* Sharing memory spares copying it for a process that throws it away. */
	pid_t pid = clone(guest_main, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, &s);
	int saved = errno;
	(void)munmap(stack, STACK_SIZE);
	if (pid < 0) {
		errno = saved;
		return err_errno(err, "start a process");
	}
	if (s.failed) {
		(void)waitpid(pid, NULL, 0);
		return explain(&s, err);
	}
	return pid;
}
