#include "box/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/spec.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* What a guest did: its output on stdout and stderr, and how it ended. */
struct outcome {
	char text[4096];
	int status;
	struct err err;
	pid_t result; /* of guest_start() */
};

static char **words(const char *const *list)
{
	char **copy = xcalloc(8, sizeof(*copy));

	for (size_t i = 0; list[i]; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

#define WORDS(...) words((const char *const[]){ __VA_ARGS__, NULL })

static void make_spec(struct spec *s, char **argv)
{
	spec_init(s);
	s->argv = argv;
	s->env = WORDS("PATH=/usr/bin:/bin", "A=b c");
	s->cwd = xstrdup("/");
}

struct job {
	const struct spec *spec;
	struct outcome *outcome; /* in memory that is shared */
};

static void do_job(void *ctx)
{
	struct outcome *o = ((struct job *)ctx)->outcome;
	AUTO_FD null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	size_t n_before = scratch_count_fds();

	CHILD_CHECK(fd_pipe(&read_fd, &write_fd) == 0);
	struct guest_fds fds = {
		.in = null_fd, .out = write_fd, .err = write_fd, .tty = -1, .reply = -1
	};
	o->result = guest_start(((struct job *)ctx)->spec, &fds, &o->err);
	close_fdp(&write_fd);
	CHILD_CHECK(fd_read_full(read_fd, o->text, sizeof(o->text) - 1) >= 0);
	if (o->result > 0)
		CHILD_CHECK(waitpid(o->result, &o->status, 0) == o->result);
	close_fdp(&read_fd);
	CHILD_CHECK(scratch_count_fds() == n_before);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0); /* also a failed one was reaped */
}

/* In a process of its own, as init is: the address sanitizer would take the second
 * stack for the first, which the guest left without returning. */
static void run(const struct spec *s, struct outcome *o)
{
	struct outcome *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct job job = { s, shared };

	CHECK(shared != MAP_FAILED);
	IN_CHILD(do_job, &job);
	*o = *shared;
	(void)munmap(shared, sizeof(*shared));
}

static void run_shell(const char *script, struct outcome *o)
{
	CLEANUP(spec_fini) struct spec s;

	make_spec(&s, WORDS("sh", "-c", script));
	run(&s, o);
}

TEST(arguments_environment_and_directory_are_the_guests)
{
	struct outcome o;

	run_shell("echo \"$A\"; pwd; env | wc -l; exit 3", &o);
	CHECK(o.result > 0);
	CHECK(str_after(o.text, "b c\n/\n") != NULL);
	CHECK_EQ(o.status, 3 << 8);
}

TEST(it_has_three_descriptors_and_a_session)
{
	struct outcome o;

	run_shell("ls /proc/self/fd | wc -l", &o);
	CHECK_STR(o.text, "4\n"); /* and the directory that ls reads */
	run_shell("read -r _ _ _ _ pgrp sid _ </proc/$$/stat; test $pgrp = $$ -a $sid = $$", &o);
	CHECK_EQ(o.status, 0);
}

TEST(signals_are_as_new)
{
	struct outcome o;
	sigset_t all, old;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	(void)signal(SIGUSR1, SIG_IGN);
	guest_reset_handlers();
	run_shell("grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status | tr -d '\\t'", &o);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	CHECK(strstr(o.text, "SigBlk:0000000000000000") != NULL);
	CHECK(strstr(o.text, "SigIgn:0000000000000000") != NULL);
}

TEST(limits_hold)
{
	CLEANUP(spec_fini) struct spec s;
	struct outcome o;

	make_spec(&s, WORDS("bash", "-c", "ulimit -n; ulimit -f; ulimit -t; ulimit -Hn"));
	s.limits.files = 100;
	s.limits.workspace_bytes = 1 << 20;
	s.limits.tmp_bytes = 2 << 20;
	s.limits.timeout_ms = 5000;
	s.limits.cpu_milli = 2000;
	run(&s, &o);
	CHECK_STR(o.text, "100\n2048\n12\n100\n");
}

TEST(the_program_is_looked_for_in_path)
{
	SCRATCH(d);
	CLEANUP(spec_fini) struct spec s;
	struct outcome o;
	char path[256];

	CHECK_EQ(mkdirat(d.fd, "a", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, "b", 0755), 0);
	scratch_write(d.fd, "a/prog", "not executable");
	scratch_write(d.fd, "b/prog", "#!/bin/sh\necho found\n");
	CHECK_EQ(fchmodat(d.fd, "b/prog", 0755, 0), 0);
	make_spec(&s, WORDS("prog"));
	free(s.env[0]);
	(void)snprintf(path, sizeof(path), "PATH=/nowhere:/etc/passwd:%s/a:%s/b", d.path, d.path);
	s.env[0] = xstrdup(path);
	run(&s, &o);
	CHECK_STR(o.text, "found\n");
	/* As a shell would say: permission denied, not "no such file". */
	free(s.env[0]);
	(void)snprintf(path, sizeof(path), "PATH=%s/a:/nowhere", d.path);
	s.env[0] = xstrdup(path);
	run(&s, &o);
	CHECK_EQ(o.result, -EACCES);
}

TEST(what_can_not_be_executed_is_told)
{
	static const struct {
		const char *program;
		int code;
		const char *text;
	} rows[] = {
		{ "no-such-program", -ENOENT,
			"cannot execute 'no-such-program': No such file or directory" },
		{ "/etc/passwd", -EACCES, "cannot execute '/etc/passwd': Permission denied" },
		{ "/etc/passwd/x", -ENOTDIR, "cannot execute '/etc/passwd/x': Not a directory" },
		{ "/", -EACCES, "cannot execute '/': Permission denied" },
		{ "./no", -ENOENT, "cannot execute './no': No such file or directory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(spec_fini) struct spec s;
		struct outcome o;

		make_spec(&s, WORDS(rows[i].program));
		run(&s, &o);
		CHECK_EQ(o.result, rows[i].code);
		CHECK_EQ(o.err.code, rows[i].code);
		CHECK_STR(o.err.text, rows[i].text);
	}
}

TEST(a_file_of_no_known_kind_is_told)
{
	SCRATCH(d);
	CLEANUP(spec_fini) struct spec s;
	struct outcome o;
	char path[128];

	scratch_write(d.fd, "odd", "\x01\x02\x03");
	CHECK_EQ(fchmodat(d.fd, "odd", 0755, 0), 0);
	(void)snprintf(path, sizeof(path), "%s/odd", d.path);
	make_spec(&s, WORDS(path));
	run(&s, &o);
	CHECK_EQ(o.result, -ENOEXEC);
}

TEST(a_directory_that_is_not_there_is_told)
{
	CLEANUP(spec_fini) struct spec s;
	struct outcome o;

	make_spec(&s, WORDS("true"));
	free(s.cwd);
	s.cwd = xstrdup("/nowhere");
	run(&s, &o);
	CHECK_EQ(o.result, -ENOENT);
	CHECK(str_after(o.err.text, "cannot enter the working directory: ") != NULL);
}

TEST(a_terminal_becomes_its_own)
{
	CLEANUP(spec_fini) struct spec s;
	int status = -1;
	AUTO_FD master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0)
		SKIP("there are no terminals here");
	CHECK(grantpt(master) == 0 && unlockpt(master) == 0);
	AUTO_FD slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	make_spec(&s, WORDS("sh", "-c", "test -t 0 -a -t 1 -a -t 2 && : </dev/tty && exit 42"));
	struct guest_fds fds = { .in = -1, .out = -1, .err = -1, .tty = slave, .reply = -1 };
	pid_t pid = guest_start(&s, &fds, NULL);
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 42 << 8);
}

TESTS(UNIT(arguments_environment_and_directory_are_the_guests),
	UNIT(it_has_three_descriptors_and_a_session), UNIT(signals_are_as_new), UNIT(limits_hold),
	UNIT(the_program_is_looked_for_in_path), UNIT(what_can_not_be_executed_is_told),
	UNIT(a_file_of_no_known_kind_is_told), UNIT(a_directory_that_is_not_there_is_told),
	UNIT(a_terminal_becomes_its_own))
