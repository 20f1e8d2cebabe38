#include "box/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "box/profile.h"
#include "box/shrink.h"
#include "lib/test.h"

/* Numbers that may be younger than the headers are the same on all machines we know. */
#define NR_IO_URING_SETUP 425
#define NR_OPEN_TREE      428
#define NR_MOVE_MOUNT     429
#define NR_FSOPEN         430
#define NR_FSCONFIG       431
#define NR_FSMOUNT        432
#define NR_FSPICK         433
#define NR_CLONE3         435
#define NR_MOUNT_SETATTR  442

#define BAD_POINTER 1

/* One call. Arguments are chosen so that it could do no harm if it were allowed, and
 * so that it fails in another way then, as far as a user without rights can tell. */
struct row {
	const char *name;
	long nr;
	long args[5];
	int code; /* the errno */
};

/* clang-format off */
static const struct row refused[] = {
	{ "mount", SYS_mount, { 0, BAD_POINTER, 0, 0, 0 }, EPERM },
	{ "umount2", SYS_umount2, { BAD_POINTER, 0 }, EPERM },
	{ "pivot_root", SYS_pivot_root, { BAD_POINTER, BAD_POINTER }, EPERM },
	{ "chroot", SYS_chroot, { BAD_POINTER }, EPERM },
	{ "open_tree", NR_OPEN_TREE, { -1, BAD_POINTER, 0 }, EPERM },
	{ "move_mount", NR_MOVE_MOUNT, { -1, BAD_POINTER, -1, BAD_POINTER, 0 }, EPERM },
	{ "fsopen", NR_FSOPEN, { BAD_POINTER, 0 }, EPERM },
	{ "fsconfig", NR_FSCONFIG, { -1, 0, 0, 0, 0 }, EPERM },
	{ "fsmount", NR_FSMOUNT, { -1, 0, 0 }, EPERM },
	{ "fspick", NR_FSPICK, { -1, BAD_POINTER, 0 }, EPERM },
	{ "mount_setattr", NR_MOUNT_SETATTR, { -1, BAD_POINTER, 0, 0, 0 }, EPERM },
	{ "unshare", SYS_unshare, { CLONE_NEWUSER }, EPERM },
	{ "unshare nothing", SYS_unshare, { 0 }, EPERM },
	{ "setns", SYS_setns, { -1, 0 }, EPERM },
	{ "clone a namespace", SYS_clone, { CLONE_NEWNS | CLONE_FS }, EPERM },
	{ "clone a user", SYS_clone, { CLONE_NEWUSER | CLONE_FS }, EPERM },
	{ "clone3", NR_CLONE3, { BAD_POINTER, 64 }, ENOSYS },
	{ "io_uring_setup", NR_IO_URING_SETUP, { 0, BAD_POINTER }, ENOSYS },
	{ "io_setup", SYS_io_setup, { 0, BAD_POINTER }, ENOSYS },
	{ "keyctl", SYS_keyctl, { -1 }, EPERM },
	{ "add_key", SYS_add_key, { BAD_POINTER, 0, 0, 0, 0 }, EPERM },
	{ "request_key", SYS_request_key, { BAD_POINTER, 0, 0, 0 }, EPERM },
	{ "kexec_load", SYS_kexec_load, { 0, -1, 0, -1 }, EPERM },
	{ "init_module", SYS_init_module, { BAD_POINTER, 0, 0 }, EPERM },
	{ "finit_module", SYS_finit_module, { -1, 0, 0 }, EPERM },
	{ "delete_module", SYS_delete_module, { BAD_POINTER, 0 }, EPERM },
	{ "reboot", SYS_reboot, { 0, 0, 0, 0 }, EPERM },
	{ "swapon", SYS_swapon, { BAD_POINTER, 0 }, EPERM },
	{ "swapoff", SYS_swapoff, { BAD_POINTER }, EPERM },
	{ "acct", SYS_acct, { BAD_POINTER }, EPERM },
	{ "settimeofday", SYS_settimeofday, { BAD_POINTER, 0 }, EPERM },
	{ "clock_settime", SYS_clock_settime, { CLOCK_MONOTONIC, BAD_POINTER }, EPERM },
	{ "clock_adjtime", SYS_clock_adjtime, { CLOCK_REALTIME, BAD_POINTER }, EPERM },
	{ "adjtimex", SYS_adjtimex, { BAD_POINTER }, EPERM },
	{ "open_by_handle_at", SYS_open_by_handle_at, { -1, BAD_POINTER, 0 }, EPERM },
	{ "name_to_handle_at", SYS_name_to_handle_at, { -1, BAD_POINTER, 0, 0, 0 }, EPERM },
	{ "bpf", SYS_bpf, { -1, 0, 0 }, EPERM },
	{ "perf_event_open", SYS_perf_event_open, { BAD_POINTER, 0, -1, -1, 0 }, EPERM },
	{ "userfaultfd", SYS_userfaultfd, { -1 }, EPERM },
	{ "kcmp", SYS_kcmp, { 0, 0, 99, 0, 0 }, EPERM },
	{ "quotactl", SYS_quotactl, { -1, BAD_POINTER, 0, 0 }, EPERM },
	{ "fanotify_init", SYS_fanotify_init, { -1, 0 }, EPERM },
	{ "syslog", SYS_syslog, { 99, 0, 0 }, EPERM },
	{ "sethostname", SYS_sethostname, { 0, -1 }, EPERM },
	{ "syncfs", SYS_syncfs, { -1 }, EPERM },
	{ "move_pages", SYS_move_pages, { 0, 0, 0, 0, 0 }, EPERM },
	{ "splice", SYS_splice, { -1, 0, -1, 0, 1 }, EINVAL },
	{ "tee", SYS_tee, { -1, -1, 1, 0 }, EINVAL },
	{ "vmsplice", SYS_vmsplice, { -1, 0, 0, 0 }, EINVAL },
	{ "personality", SYS_personality, { 0x0400000 }, EPERM },
	{ "limits of init", SYS_prlimit64, { 1, 7, BAD_POINTER, 0 }, EPERM },
	{ "no core dumps, pretended", SYS_setrlimit, { 4, BAD_POINTER }, 0 },
	{ "the same with upper bits", SYS_setrlimit, { 4 | (1L << 32), BAD_POINTER }, 0 },
	{ "the same by prlimit64", SYS_prlimit64, { 0, 4, BAD_POINTER, 0 }, 0 },
	{ "that with upper bits", SYS_prlimit64, { 0, 4 | (1L << 32), BAD_POINTER, 0 }, 0 },
	{ "core dumps of init", SYS_prlimit64, { 1, 4, BAD_POINTER, 0 }, EPERM },
	{ "TIOCSTI", SYS_ioctl, { -1, 0x5412, 0 }, EPERM },
	{ "TIOCSTI with upper bits", SYS_ioctl, { -1, 0x5412 | (1L << 32), 0 }, EPERM },
	{ "TIOCLINUX", SYS_ioctl, { -1, 0x541c, 0 }, EPERM },
	{ "TIOCSETD", SYS_ioctl, { -1, 0x5423, 0 }, EPERM },
	{ "AF_KEY", SYS_socket, { AF_KEY, SOCK_RAW, 2 }, EAFNOSUPPORT },
	{ "AF_PACKET", SYS_socket, { AF_PACKET, SOCK_RAW, 0 }, EAFNOSUPPORT },
	{ "AF_RDS", SYS_socket, { AF_RDS, SOCK_SEQPACKET, 0 }, EAFNOSUPPORT },
	{ "AF_CAN", SYS_socket, { AF_CAN, SOCK_RAW, 1 }, EAFNOSUPPORT },
	{ "AF_TIPC", SYS_socket, { AF_TIPC, SOCK_STREAM, 0 }, EAFNOSUPPORT },
	{ "AF_BLUETOOTH", SYS_socket, { AF_BLUETOOTH, SOCK_RAW, 1 }, EAFNOSUPPORT },
	{ "AF_ALG", SYS_socket, { AF_ALG, SOCK_SEQPACKET, 0 }, EAFNOSUPPORT },
	{ "AF_VSOCK", SYS_socket, { AF_VSOCK, SOCK_STREAM, 0 }, EAFNOSUPPORT },
	{ "AF_XDP", SYS_socket, { AF_XDP, SOCK_RAW, 0 }, EAFNOSUPPORT },
	{ "AF_ALG hidden", SYS_socket, { AF_ALG | (1L << 32), SOCK_SEQPACKET, 0 }, EAFNOSUPPORT },
	{ "AF_TIPC pair", SYS_socketpair, { AF_TIPC, SOCK_STREAM, 0, BAD_POINTER }, EAFNOSUPPORT },
	{ "SCTP", SYS_socket, { AF_INET, SOCK_STREAM, 132 }, EPERM },
	{ "NETLINK_AUDIT", SYS_socket, { AF_NETLINK, SOCK_RAW, 9 }, EPROTONOSUPPORT },
	{ "a call of the future", 1000, { 0 }, ENOSYS },
};

/* These fail alike with and without the filter, or succeed (code 0) in both. */
static const struct row allowed[] = {
	{ "getpid", SYS_getpid, { 0 }, 0 },
	{ "openat", SYS_openat, { -1, BAD_POINTER, 0, 0 }, EFAULT },
	{ "mkdirat", SYS_mkdirat, { -1, BAD_POINTER, 0 }, EFAULT },
	{ "dup3", SYS_dup3, { -1, -1, 0 }, EINVAL },
	{ "setsid", SYS_setsid, { 0 }, 0 },
	{ "memfd_create", SYS_memfd_create, { BAD_POINTER, 0 }, EFAULT },
	{ "execve", SYS_execve, { BAD_POINTER, 0, 0 }, EFAULT },
	{ "wait4", SYS_wait4, { -1, 0, WNOHANG, 0 }, ECHILD },
	{ "kill", SYS_kill, { 0x7ffffffe, 0 }, ESRCH },
	{ "a limit of one's own", SYS_prlimit64, { 0, 7, 0, 0 }, 0 },
	{ "core dumps of one's own, read", SYS_prlimit64, { 0, 4, 0, BAD_POINTER }, EFAULT },
	{ "the first limit set", SYS_setrlimit, { 0, BAD_POINTER }, EFAULT },
	{ "the limit before core dumps", SYS_setrlimit, { 3, BAD_POINTER }, EFAULT },
	{ "the limit behind core dumps", SYS_prlimit64, { 0, 5, BAD_POINTER, 0 }, EFAULT },
	{ "the last limit set", SYS_prlimit64, { 0, 15, BAD_POINTER, 0 }, EFAULT },
	{ "limits of init, read", SYS_prlimit64, { 0x7ffffffe, 7, 0, 0 }, ESRCH },
	{ "which personality", SYS_personality, { 0xffffffff }, 0 },
	{ "TIOCSCTTY", SYS_ioctl, { -1, 0x540e, 0 }, EBADF },
	{ "TIOCSWINSZ", SYS_ioctl, { -1, 0x5414, 0 }, EBADF },
	{ "TIOCGWINSZ, TIOCSTI's neighbour", SYS_ioctl, { -1, 0x5413, 0 }, EBADF },
	{ "AF_UNIX", SYS_socket, { AF_UNIX, SOCK_STREAM, 0 }, 0 },
	{ "AF_INET", SYS_socket, { AF_INET, SOCK_STREAM, 6 }, 0 },
	{ "NETLINK_ROUTE", SYS_socket, { AF_NETLINK, SOCK_RAW, 0 }, 0 },
	{ "AF_UNIX pair", SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, BAD_POINTER }, EFAULT },
	{ "ptrace", SYS_ptrace, { 16, 0x7ffffffe, 0, 0 }, ESRCH },
	{ "sendfile", SYS_sendfile, { -1, -1, 0, 1 }, EBADF },
	{ "futex", SYS_futex, { BAD_POINTER, 1, 0, 0 }, EINVAL },
	{ "seccomp", SYS_seccomp, { 99, 0, 0 }, EINVAL },
};
/* clang-format on */

static int try_call(const struct row *row)
{
	const long *a = row->args;

	errno = 0;
	long r = syscall(row->nr, a[0], a[1], a[2], a[3], a[4], 0);
	return r < 0 ? errno : 0;
}

static int try_rows(const struct row *rows, size_t n, const char *when)
{
	int n_bad = 0;

	for (size_t i = 0; i < n; i++) {
		int code = try_call(&rows[i]);

		if (code == rows[i].code)
			continue;
		n_bad++;
		print_message("%s: %s: errno %d, not %d\n", when, rows[i].name, code, rows[i].code);
	}
	return n_bad;
}

static void load_shipped(void)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	if (profile_compile(profile_default, profile_default_size, &p, &err) < 0 ||
		!shrink_program(&p) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		seccomp_install(&p, &err) < 0) {
		print_message("%s\n", err.text);
		_exit(99);
	}
	seccomp_fini(&p);
}

/* What a child that did `work` ended with, as waitpid() says it. */
static int run_child(void (*work)(void))
{
	int status = -1;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		work();
		_exit(98);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void try_refused(void)
{
	load_shipped();
	_exit(try_rows(refused, ARRAY_SIZE(refused), "filtered") > 0);
}

static void try_allowed(void)
{
	load_shipped();
	_exit(try_rows(allowed, ARRAY_SIZE(allowed), "filtered") > 0);
}

static void try_allowed_unfiltered(void)
{
	_exit(try_rows(allowed, ARRAY_SIZE(allowed), "unfiltered") > 0);
}

TEST(harmful_calls_are_refused)
{
	CHECK_EQ(run_child(try_refused), 0);
}

TEST(harmless_calls_do_what_they_do_without_a_filter)
{
	CHECK_EQ(run_child(try_allowed_unfiltered), 0);
	CHECK_EQ(run_child(try_allowed), 0);
}

/* Without this the test above could pass on a kernel that refuses all by itself. */
static void try_refused_unfiltered(void)
{
	int n_other = 0;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		/* sockets would load modules on the machine that runs the tests */
		if (refused[i].nr != SYS_socket && refused[i].nr != SYS_socketpair)
			n_other += try_call(&refused[i]) != refused[i].code;
	}
	_exit(n_other >= 20 ? 0 : 1);
}

TEST(it_is_the_filter_that_refuses)
{
	CHECK_EQ(run_child(try_refused_unfiltered), 0);
}

static void fork_and_exec(void)
{
	int status = -1;

	load_shipped();
	pid_t pid = fork();
	if (pid == 0) {
		/* the filter goes along: SECCOMP_MODE_FILTER is 2 */
		execl("/bin/sh", "sh", "-c", "grep -q '^Seccomp:.*2$' /proc/self/status", NULL);
		_exit(97);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		_exit(96);
	_exit(status == 0 ? 0 : 1);
}

TEST(children_and_what_they_execute_are_filtered_too)
{
	CHECK_EQ(run_child(fork_and_exec), 0);
}

static int pipe_fds[2];

static void *call_when_told(void *ret_code)
{
	char c;

	if (read(pipe_fds[0], &c, 1) == 1)
		*(int *)ret_code = syscall(SYS_tee, -1, -1, 1, 0) < 0 ? errno : 0;
	return NULL;
}

static void load_beside_a_thread(void)
{
	pthread_t thread;
	int code = 0;

	if (pipe(pipe_fds) < 0 || pthread_create(&thread, NULL, call_when_told, &code) != 0)
		_exit(97);
	load_shipped();
	if (write(pipe_fds[1], "x", 1) != 1 || pthread_join(thread, NULL) != 0)
		_exit(96);
	_exit(code == EINVAL ? 0 : 1);
}

TEST(a_thread_that_is_there_already_is_filtered_too)
{
	CHECK_EQ(run_child(load_beside_a_thread), 0);
}

static void load_twice(void)
{
	load_shipped();
	load_shipped();
	_exit(try_rows(allowed, ARRAY_SIZE(allowed), "filtered twice") > 0);
}

TEST(filters_can_be_nested)
{
	CHECK_EQ(run_child(load_twice), 0);
}

static void load_without_no_new_privs(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct seccomp_program p = { code, 1 };
	struct err err = { 0 };

	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		_exit(97);
	_exit(seccomp_install(&p, &err) == -EACCES && strstr(err.text, "filter") ? 0 : 1);
}

static void load_without_a_return(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_JMP | BPF_JA, 0) };
	struct seccomp_program p = { code, 1 };
	struct err err = { 0 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(97);
	_exit(seccomp_install(&p, &err) == -EINVAL && strstr(err.text, "filter") ? 0 : 1);
}

TEST(what_the_kernel_refuses_is_an_error)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	CHECK_EQ(seccomp_install(&p, &err), -EINVAL);
	CHECK(strstr(err.text, "0 instructions") != NULL);
	p.n_code = BPF_MAXINSNS + 1;
	CHECK_EQ(seccomp_install(&p, &err), -EINVAL);
	CHECK_EQ(run_child(load_without_a_return), 0);
	CHECK_EQ(run_child(load_without_no_new_privs), 0);
}

#ifdef __x86_64__
/* getpid() by the convention of i386; -1 when this returns something else. */
static long call_i386(void)
{
	long r = 20;

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "cc", "r8", "r9", "r10", "r11");
	return r;
}

static void call_i386_unfiltered(void)
{
	_exit(call_i386() == getpid() ? 0 : 1);
}

static void call_i386_filtered(void)
{
	load_shipped();
	(void)call_i386();
}

TEST(a_call_of_i386_kills)
{
	if (run_child(call_i386_unfiltered) != 0)
		SKIP("this kernel has no i386 calls");
	int status = run_child(call_i386_filtered);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSYS);
}

static void call_x32_filtered(void)
{
	load_shipped();
	(void)syscall(0x40000000 | SYS_getpid);
}

TEST(a_call_of_x32_kills)
{
	int status = run_child(call_x32_filtered);

	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGSYS);
}
#else
TEST(a_call_of_i386_kills)
{
	SKIP("only x86-64 has them");
}

TEST(a_call_of_x32_kills)
{
	SKIP("only x86-64 has them");
}
#endif

TEST(what_is_no_filter_program_kills)
{
	/* clang-format off */
	static const struct sock_filter bad[][2] = {
		{ BPF_STMT(BPF_JMP | BPF_JA, 7), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) },
		{ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000) },
		{ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), BPF_STMT(BPF_RET | BPF_K, 0x7fff0000) },
		{ BPF_STMT(BPF_LD | BPF_W | BPF_ABS, UINT32_MAX), BPF_STMT(BPF_RET | BPF_K, 0) },
		{ BPF_STMT(BPF_RET | BPF_A, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) },
		{ BPF_STMT(BPF_JMP | BPF_JA, 0), BPF_STMT(BPF_JMP | BPF_JA, 0) },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sock_filter code[2];
		struct seccomp_program p = { code, 2 };
		struct seccomp_data call = { 0 };

		memcpy(code, bad[i], sizeof(code));
		CHECK_EQ(seccomp_eval(&p, &call, NULL), SECCOMP_RET_KILL_PROCESS);
	}
}

TEST(a_program_that_looks_at_arguments_says_so)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x20, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct seccomp_program p = { code, ARRAY_SIZE(code) };
	struct seccomp_data even = { .nr = 2 };
	struct seccomp_data odd = { .nr = 3 };
	bool by_args = true;

	odd.args[1] = 0x12f;
	CHECK_EQ(seccomp_eval(&p, &even, &by_args), SECCOMP_RET_TRAP);
	CHECK(!by_args);
	CHECK_EQ(seccomp_eval(&p, &odd, &by_args), SECCOMP_RET_ALLOW);
	CHECK(by_args);
}

TESTS(UNIT(harmful_calls_are_refused), UNIT(harmless_calls_do_what_they_do_without_a_filter),
	UNIT(it_is_the_filter_that_refuses), UNIT(children_and_what_they_execute_are_filtered_too),
	UNIT(a_thread_that_is_there_already_is_filtered_too), UNIT(filters_can_be_nested),
	UNIT(what_the_kernel_refuses_is_an_error), UNIT(a_call_of_i386_kills),
	UNIT(a_call_of_x32_kills), UNIT(what_is_no_filter_program_kills),
	UNIT(a_program_that_looks_at_arguments_says_so))
