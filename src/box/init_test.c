#include "box/init.h"

#include <errno.h>
#include <signal.h>

#include "base/str.h"
#include "box/init_sample.h"

static void run_to_the_end(void *ctx)
{
	struct play p;
	struct cur c;

	open_box(&p, ctx);
	send_script(&p, "id -u; echo $$; hostname; exit 3");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 3 << 8);
	CHILD_CHECK(printed(&p, "1000\n2\nbox\n"));
	CHILD_CHECK(hear(&p, &c) == 0);
	expect_gone(&p);
}

TEST(a_guest_runs_and_its_end_is_told)
{
	SCRATCH(d);

	IN_CHILD(run_to_the_end, d.path);
}

static void leave_daemons(void *ctx)
{
	struct play p;
	struct cur c;

	open_box(&p, ctx);
	send_script(&p, "(setsid sleep 1000 &) ; (setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; "
			"kill -9 1; kill -STOP 1; echo done");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	CHILD_CHECK(printed(&p, "done\n")); /* the pipe ended: nobody holds it any more */
	expect_gone(&p);
}

TEST(nobody_outlives_the_guest_and_nobody_harms_init)
{
	SCRATCH(d);

	IN_CHILD(leave_daemons, d.path);
}

static void fail_to_execute(void *ctx)
{
	struct play p;
	struct cur c;
	char text[256];

	open_box(&p, ctx);
	p.stage.spec.cwd = (char *)"/nowhere";
	send_script(&p, "true");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_FAILED);
	CHILD_CHECK(cur_u32(&c) == REASON_PROVISION_FAILED);
	CHILD_CHECK(cur_u32(&c) == ENOENT);
	cur_str_into(&c, text, sizeof(text));
	CHILD_CHECK(cur_end(&c) == 0 && strstr(text, "working directory") != NULL);
	CHILD_CHECK(hear(&p, &c) == 0);
	expect_gone(&p);
}

TEST(what_can_not_be_started_is_told)
{
	SCRATCH(d);

	IN_CHILD(fail_to_execute, d.path);
}

static void pass_signals(void *ctx)
{
	struct play p;
	struct cur c;
	struct put out;
	char up[3];

	open_box(&p, ctx);
	send_script(&p, "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(fd_read_full(p.out_fd, up, 3) == 3);
	put_init(&out, 64);
	put_u32(&out, SIGTERM);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_SIGNAL, &out, NULL, 0) == 0);
	put_fini(&out);
	CHILD_CHECK(hear_exited(&p) == 9 << 8);
	expect_gone(&p);
}

TEST(signals_are_passed_on)
{
	SCRATCH(d);

	IN_CHILD(pass_signals, d.path);
}

static void ignore_one(void *ctx)
{
	struct play p;
	struct cur c;
	char said[64] = "";

	(void)signal(SIGUSR1, SIG_IGN); /* as who starts a keeper may have it */
	open_box(&p, ctx);
	send_script(&p, "grep SigIgn /proc/self/status; ulimit -l");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(fd_read_full(p.out_fd, said, sizeof(said) - 1) > 0);
	CHILD_CHECK(streq(said, "SigIgn:\t0000000000000000\n64\n"));
	CHILD_CHECK(hear_exited(&p) == 0);
	expect_gone(&p);
}

TEST(signals_and_limits_of_the_keeper_are_not_the_guests)
{
	SCRATCH(d);

	IN_CHILD(ignore_one, d.path);
}

static void kill_all(void *ctx)
{
	struct play p;
	struct cur c;

	open_box(&p, ctx);
	send_script(&p, "trap '' TERM INT HUP; sleep 1000 & sleep 1000");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_KILL, NULL, NULL, 0) == 0);
	CHILD_CHECK(hear_exited(&p) == SIGKILL);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
}

TEST(a_kill_reaches_everybody)
{
	SCRATCH(d);

	IN_CHILD(kill_all, d.path);
}

static void hang_up(void *ctx)
{
	struct play p;
	struct cur c;

	open_box(&p, ctx);
	send_script(&p, "sleep 1000");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	close_fdp(&p.box.control_fd);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
	/* And one that waits for its specification still. */
	open_box(&p, ctx);
	close_fdp(&p.box.control_fd);
	expect_gone(&p);
}

TEST(a_box_ends_with_its_control_socket)
{
	SCRATCH(d);

	IN_CHILD(hang_up, d.path);
}

static void talk_nonsense(void *ctx)
{
	static const uint32_t types[] = { MESSAGE_BOX_KILL, MESSAGE_START, MESSAGE_BOX_SPEC };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct play p;
		struct cur c;

		open_box(&p, ctx);
		CHILD_CHECK(frame_send(p.box.control_fd, types[i], NULL, NULL, 0) == 0);
		CHILD_CHECK(hear(&p, &c) == 0);
		expect_gone(&p);
	}
}

TEST(a_box_that_is_told_nonsense_runs_nothing)
{
	SCRATCH(d);

	IN_CHILD(talk_nonsense, d.path);
}

/* Of init, who waits: its filters and capabilities. */
static bool shows(pid_t pid, const char *line)
{
	char path[64], text[4096];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	CHILD_CHECK(fd_read_text(AT_FDCWD, path, text, sizeof(text)) > 0);
	return strstr(text, line) != NULL;
}

static bool is_closed(pid_t pid)
{
	return shows(pid, "\nSeccomp:\t2\n") && shows(pid, "\nCapEff:\t0000000000000000\n");
}

static void seal_ahead(void *ctx)
{
	struct play p;
	struct cur c;

	open_box_as(&p, ctx, SEAL_PLAIN);
	for (int i = 0; i < SOON_MS && !is_closed(p.box.pid); i++)
		(void)usleep(1000);
	CHILD_CHECK(is_closed(p.box.pid)); /* before it knows what for */
	send_script(&p, "echo hi >/workspace/f && cat /workspace/f");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	CHILD_CHECK(printed(&p, "hi\n"));
	expect_gone(&p);
}

TEST(a_sealed_box_is_closed_before_its_run)
{
	SCRATCH(d);

	IN_CHILD(seal_ahead, d.path);
}

#define COPY_AND_EXECUTE                                                                           \
	"for d in /workspace /mnt/data /tmp /dev/shm; do cp /usr/bin/true $d/t; "                  \
	"$d/t 2>/dev/null && echo $d; done; :"

static void expect_exec(void *ctx, enum seal seal, bool exec, const char *said)
{
	struct play p;
	struct cur c;

	open_box_as(&p, ctx, seal);
	p.stage.spec.exec = exec;
	send_script(&p, COPY_AND_EXECUTE);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	CHILD_CHECK(printed(&p, said));
	expect_gone(&p);
}

static void execute_where_asked(void *ctx)
{
	expect_exec(ctx, SEAL_NONE, true, "/workspace\n/mnt/data\n/tmp\n");
}

static void execute_where_sealed(void *ctx)
{
	expect_exec(ctx, SEAL_EXEC, true, "/workspace\n/mnt/data\n/tmp\n");
}

static void execute_nowhere(void *ctx)
{
	expect_exec(ctx, SEAL_NONE, false, "");
}

TEST(own_files_are_executed_where_that_was_asked_for)
{
	SCRATCH(a);
	SCRATCH(b);
	SCRATCH(c);

	IN_CHILD(execute_where_asked, a.path);
	IN_CHILD(execute_where_sealed, b.path);
	IN_CHILD(execute_nowhere, c.path);
}

static void ask_too_late(void *ctx)
{
	struct play p;
	struct cur c;

	open_box_as(&p, ctx, SEAL_PLAIN);
	p.stage.spec.limits.tmp_bytes /= 2;
	send_script(&p, "true");
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_FAILED);
	CHILD_CHECK(cur_u32(&c) == REASON_PROVISION_FAILED);
	CHILD_CHECK(cur_u32(&c) == EPERM);
	expect_gone(&p);
}

TEST(a_sealed_box_has_no_other_sizes)
{
	SCRATCH(d);

	IN_CHILD(ask_too_late, d.path);
}

TESTS(UNIT(a_sealed_box_is_closed_before_its_run), UNIT(a_sealed_box_has_no_other_sizes),
	UNIT(own_files_are_executed_where_that_was_asked_for),
	UNIT(a_guest_runs_and_its_end_is_told),
	UNIT(nobody_outlives_the_guest_and_nobody_harms_init),
	UNIT(what_can_not_be_started_is_told), UNIT(signals_are_passed_on),
	UNIT(signals_and_limits_of_the_keeper_are_not_the_guests), UNIT(a_kill_reaches_everybody),
	UNIT(a_box_ends_with_its_control_socket), UNIT(a_box_that_is_told_nonsense_runs_nothing))
