#include "box/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define NOBODY 65534

static bool file_has(const char *path, const char *word)
{
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fd_read_all(fd, 1 << 20, &data, &size) < 0)
		abort();
	return memmem(data, size, word, strlen(word)) != NULL;
}

static void forget(void *ctx)
{
	struct err err = { 0 };

	(void)ctx;
	CHILD_CHECK(file_has("/proc/self/cmdline", "program_test"));
	CHILD_CHECK(file_has("/proc/self/environ", "PROGRAM_TEST_SECRET"));
	CHILD_CHECK(program_forget_arguments(&err) == 0);
	CHILD_CHECK(!file_has("/proc/self/cmdline", "program_test"));
	CHILD_CHECK(file_has("/proc/self/cmdline", "belljar box"));
	CHILD_CHECK(!file_has("/proc/self/environ", "PROGRAM_TEST_SECRET"));
	CHILD_CHECK(getenv("PROGRAM_TEST_SECRET") == NULL);
}

TEST(arguments_and_environment_are_overwritten)
{
	IN_CHILD(forget, NULL);
}

/* Seal, and say what became of us. The copy gets here too, and must not go round. */
static _Noreturn void seal_and_tell(void)
{
	struct err err = { 0 };
	struct stat st;
	int r = program_seal(&err);

	if (r < 0) {
		print_message("%s\n", err.text);
		_exit(1);
	}
	AUTO_FD fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool is_sealed = fd >= 0 && fcntl(fd, F_GET_SEALS) > 0 && fstat(fd, &st) == 0;
	_exit(is_sealed && open("/proc/self/exe", O_RDWR | O_CLOEXEC) < 0 ? 40 : 41);
}

static int copy_self(const char *path)
{
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	AUTO_FD from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	AUTO_FD to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	if (from < 0 || to < 0 || fd_read_all(from, 64 << 20, &data, &size) < 0)
		return -1;
	return fd_write_full(to, data, size);
}

/* The exit status of a copy of this program that belongs to `owner` and is run by
 * `user` to seal itself. */
static int run_copy(uid_t owner, uid_t user)
{
	SCRATCH(dir);
	char path[128];
	char word[] = "seal";
	char *argv[] = { path, word, NULL };
	int status = -1;

	(void)snprintf(path, sizeof(path), "%s/copy", dir.path);
	CHECK_EQ(copy_self(path), 0);
	CHECK_EQ(chown(path, owner, owner), 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (user != geteuid() &&
			(setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 ||
				setresuid(user, user, user) < 0))
			_exit(90);
		(void)execv(path, argv);
		_exit(91);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_file_of_ones_own_is_left_for_a_sealed_copy)
{
	uid_t user = geteuid() == 0 ? NOBODY : geteuid();

	CHECK_EQ(run_copy(user, user), 40);
}

TEST(a_file_of_somebody_elses_is_run_as_it_is)
{
	if (geteuid() != 0)
		SKIP("needs root to make files for others");
	CHECK_EQ(run_copy(0, NOBODY), 41);
}

#define LARGE   (64u << 20)
#define N_TRIES 50

struct large {
	char *bytes; /* /bin/true, with much behind it that takes long to write */
	int fd;      /* the number its file will have */
};

static _Noreturn void execute_large(const struct large *l)
{
	char name[] = "true";
	char *argv[] = { name, NULL };
	struct err err = { 0 };

	(void)program_execute(l->bytes, LARGE, argv, &err);
	print_message("%s\n", err.text);
	_exit(1);
}

/* Keep a page of the file that `pid` writes in a pipe, as soon as there is one. False if
 * it was over before. */
static bool hold_a_page(pid_t pid, int fd, int pipe_fd)
{
	char path[64];
	loff_t at = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	while (kill(pid, 0) == 0) {
		siginfo_t info = { 0 };
		AUTO_FD file = open(path, O_RDONLY | O_CLOEXEC);

		if (file >= 0 && splice(file, &at, pipe_fd, NULL, 4096, 0) > 0)
			return true;
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
			info.si_pid == pid)
			return false;
	}
	return false;
}

TEST(who_reads_a_program_does_not_keep_it_from_being_sealed)
{
	struct large l = { .bytes = xcalloc(1, LARGE) };
	AUTO_FD program = open("/bin/true", O_RDONLY | O_CLOEXEC);
	bool was_held = false;
	int pipe_fds[2];

	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	CHECK(fd_read_full(program, l.bytes, LARGE) > 0);
	for (int i = 0; i < N_TRIES && !was_held; i++) {
		int status = -1;

		l.fd = dup(program);
		CHECK(l.fd >= 0);
		(void)close(l.fd);
		pid_t pid = fork();
		if (pid == 0)
			execute_large(&l);
		was_held = hold_a_page(pid, l.fd, pipe_fds[1]);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
	}
	free(l.bytes);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	CHECK(was_held);
}

/* Not TESTS(): copies of this program come here too, to seal themselves. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		UNIT(arguments_and_environment_are_overwritten),
		UNIT(a_file_of_ones_own_is_left_for_a_sealed_copy),
		UNIT(a_file_of_somebody_elses_is_run_as_it_is),
		UNIT(who_reads_a_program_does_not_keep_it_from_being_sealed),
	};

	if (argc == 2 && streq(argv[1], "seal"))
		seal_and_tell();
	if (!getenv("PROGRAM_TEST_SECRET")) {
		/* The area that is to be overwritten is what execve() was given. */
		(void)setenv("PROGRAM_TEST_SECRET", "1", 1);
		(void)execv("/proc/self/exe", argv);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
