#include "box/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/str.h"
#include "box/workspace.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/inventory.h"
#include "ipc/message.h"
#include "ipc/pack_write.h"
#include "ipc/result.h"
#include "ipc/unpack.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

/* How long anything may take that happens at once unless something is wrong. */
#define SOON_MS 20000

#define WORKSPACE "00112233445566778899aabbccddeeff"

static uint8_t buffer[FRAME_SIZE_MAX];

/* The keeper's side of one real box, played by the test. */
struct play {
	struct stage stage;
	struct box box;
	int out_fd;
	int files_fd;
	int capture_fd;
	int listing_fd;
};

static void open_box_as(struct play *p, const char *stage_dir, bool is_sealed)
{
	struct err err = { 0 };

	memset(p, 0, sizeof(*p));
	p->out_fd = p->files_fd = p->capture_fd = p->listing_fd = -1;
	stage_host(&p->stage, stage_dir);
	struct box_order order = STAGE_ORDER(p->stage.root, 0x70001234);
	order.is_sealed = is_sealed;
	if (box_start(&p->stage.host, &order, &p->box, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
}

static void open_box(struct play *p, const char *stage_dir)
{
	open_box_as(p, stage_dir, false);
}

/* Hand over a shell script, with a pipe for its output. */
static void send_script(struct play *p, const char *script)
{
	char *argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };
	char *env[] = { (char *)"PATH=/usr/bin:/bin", NULL };
	struct spec *s = &p->stage.spec;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[CHANNEL_COUNT] = { null_fd, -1, null_fd };
	uint32_t mask = 1u << CHANNEL_STDIN | 1u << CHANNEL_STDOUT | 1u << CHANNEL_STDERR;
	size_t n = 3;
	int ends[2];
	struct put out;

	CHILD_CHECK(fd_pipe(&p->out_fd, &fds[1]) == 0);
	if (s->takes_files) {
		CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		p->files_fd = ends[0];
		fds[n++] = ends[1];
		mask |= 1u << CHANNEL_FILES;
	}
	if (s->globs) {
		CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		p->capture_fd = ends[0];
		fds[n++] = ends[1];
		mask |= 1u << CHANNEL_CAPTURE;
	}
	if (s->lists) {
		CHILD_CHECK(fd_pipe(&p->listing_fd, &fds[n++]) == 0);
		mask |= 1u << CHANNEL_LISTING;
	}
	spec_make_id(s->id);
	s->argv = argv;
	s->env = env;
	put_init(&out, FRAME_SIZE_MAX);
	spec_put(s, &out);
	put_u32(&out, mask);
	s->argv = s->env = NULL; /* they end with this function */
	CHILD_CHECK(frame_send(p->box.control_fd, MESSAGE_BOX_SPEC, &out, fds, n) == 0);
	put_fini(&out);
	for (size_t i = 1; i < n; i++) {
		if (fds[i] != null_fd)
			(void)close(fds[i]);
	}
	(void)close(null_fd);
}

/* The next message of init, or 0 when it hung up. */
static uint32_t hear(struct play *p, struct cur *c)
{
	struct pollfd fds = { .fd = p->box.control_fd, .events = POLLIN };
	struct frame f;

	CHILD_CHECK(poll(&fds, 1, SOON_MS) == 1);
	int r = frame_recv(p->box.control_fd, buffer, &f);
	CHILD_CHECK(r >= 0 || r == -ECONNRESET);
	if (r <= 0)
		return 0;
	frame_close_fds(&f);
	cur_init(c, f.data, f.size);
	return f.type;
}

/* The wait status that init reports. */
static int hear_exited(struct play *p)
{
	struct cur c;

	CHILD_CHECK(hear(p, &c) == MESSAGE_BOX_EXITED);
	(void)cur_u64(&c);
	int status = (int)cur_u32(&c);
	for (int i = 0; i < 4; i++)
		(void)cur_u64(&c);
	CHILD_CHECK(cur_end(&c) == 0);
	return status;
}

static void expect_gone(struct play *p)
{
	struct pollfd fds = { .fd = p->box.pid_fd, .events = POLLIN };

	CHILD_CHECK(poll(&fds, 1, SOON_MS) == 1);
	CHILD_CHECK(box_reap(&p->box));
	box_fini(&p->box);
}

static bool printed(struct play *p, const char *text)
{
	char got[256];
	ssize_t n = fd_read_full(p->out_fd, got, sizeof(got) - 1);

	CHILD_CHECK(n >= 0);
	got[n] = '\0';
	return streq(got, text);
}

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

/* A run in a workspace whose mount did not come along: init asks for it. */
static void open_asking(struct play *p, struct workspace_home *home, const char *dir)
{
	struct err err = { 0 };
	struct cur c;

	open_box(p, dir);
	workspace_home_init(home, &p->stage.host, dir);
	(void)snprintf(p->stage.spec.workspace, sizeof(p->stage.spec.workspace), "%s", WORKSPACE);
	CHILD_CHECK(workspace_make(home, WORKSPACE, p->box.uid, 1 << 20, &err) == 0);
	send_script(p, "echo 1 >/workspace/a; echo up; while :; do sleep 0.01; done");
	CHILD_CHECK(hear(p, &c) == MESSAGE_BOX_ASKS && cur_end(&c) == 0);
}

static void give_workspace(struct play *p, struct workspace_home *home, int *ret_kept)
{
	struct err err = { 0 };
	AUTO_FD fd = -1;

	CHILD_CHECK(workspace_clone(home, WORKSPACE, &fd, &err) == 0);
	CHILD_CHECK(workspace_clone(home, WORKSPACE, ret_kept, &err) == 0);
	CHILD_CHECK(frame_send(p->box.control_fd, MESSAGE_BOX_WORKSPACE, NULL, &fd, 1) == 0);
}

static void send_workspace(void *ctx)
{
	struct play p;
	struct workspace_home home;
	struct cur c;
	AUTO_FD kept = -1;
	char up[3];

	open_asking(&p, &home, ctx);
	give_workspace(&p, &home, &kept);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(fd_read_full(p.out_fd, up, 3) == 3);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_KILL, NULL, NULL, 0) == 0);
	CHILD_CHECK(hear_exited(&p) == SIGKILL);
	expect_gone(&p);
	CHILD_CHECK(scratch_holds(kept, "a", "1\n"));
	workspace_home_fini(&home);
}

TEST(a_workspace_that_did_not_come_along_is_asked_for)
{
	SCRATCH(d);

	IN_CHILD(send_workspace, d.path);
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

static void signal_early(void *ctx)
{
	struct play p;
	struct workspace_home home;
	struct cur c;
	struct put out;
	AUTO_FD kept = -1;

	open_asking(&p, &home, ctx);
	put_init(&out, 64);
	put_u32(&out, SIGTERM);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_SIGNAL, &out, NULL, 0) == 0);
	put_fini(&out);
	give_workspace(&p, &home, &kept);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == SIGTERM);
	expect_gone(&p);
	workspace_home_fini(&home);
}

TEST(a_signal_that_comes_before_the_workspace_waits_for_the_guest)
{
	SCRATCH(d);

	IN_CHILD(signal_early, d.path);
}

static void send_no_workspace(void *ctx)
{
	struct play p;
	struct workspace_home home;
	struct cur c;

	open_asking(&p, &home, ctx);
	CHILD_CHECK(frame_send(p.box.control_fd, MESSAGE_BOX_WORKSPACE, NULL, NULL, 0) == 0);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_FAILED);
	CHILD_CHECK(cur_u32(&c) == REASON_PROVISION_FAILED);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
	/* Nor does it wait for a keeper that is gone. */
	workspace_home_fini(&home);
	open_asking(&p, &home, ctx);
	close_fdp(&p.box.control_fd);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
	workspace_home_fini(&home);
}

TEST(without_its_workspace_a_guest_is_not_started)
{
	SCRATCH(d);

	IN_CHILD(send_no_workspace, d.path);
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

static void carry_files(void *ctx)
{
	static char *globs[] = { (char *)"out/*", NULL };
	static struct pack_reader reader;
	static struct unpack sink;
	struct play p;
	struct cur c;
	uint8_t chunk[4096];
	struct scratch *to = ctx;

	open_box(&p, to->path);
	p.stage.spec.takes_files = true;
	p.stage.spec.globs = globs;
	send_script(&p, "mkdir out; tr a-z A-Z <in >out/up");
	struct pack_writer w = { .fd = p.files_fd, .max_bytes = UINT64_MAX };
	CHILD_CHECK(pack_write_bytes(&w, "in", 0644, "text", 4, NULL) == 0);
	CHILD_CHECK(pack_write_end(&w, NULL) == 0);
	(void)close(p.files_fd);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	unpack_init(&sink, to->fd, 1000);
	pack_reader_init(&reader, &sink.sink);
	for (ssize_t n; (n = read(p.capture_fd, chunk, sizeof(chunk))) > 0;)
		CHILD_CHECK(pack_feed(&reader, chunk, (size_t)n, NULL) == 0);
	CHILD_CHECK(pack_end(&reader, NULL) == 0);
	CHILD_CHECK(scratch_holds(to->fd, "out/up", "TEXT"));
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_CAPTURED);
	CHILD_CHECK(cur_u64(&c) == 4);
	expect_gone(&p);
}

TEST(files_go_in_before_and_out_after)
{
	SCRATCH(d);

	IN_CHILD(carry_files, &d);
}

/* What was there before, and what the guest made of it. */
static void name_files(void *ctx)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	struct play p;
	struct cur c;
	uint8_t data[4096];

	open_box(&p, ctx);
	p.stage.spec.takes_files = p.stage.spec.lists = true;
	send_script(&p, "echo >new; echo x >>changed; ln -s /etc link; mkfifo fifo");
	struct pack_writer w = { .fd = p.files_fd, .max_bytes = UINT64_MAX };
	CHILD_CHECK(pack_write_bytes(&w, "old", 0644, "text", 4, NULL) == 0);
	CHILD_CHECK(pack_write_bytes(&w, "changed", 0644, "text", 4, NULL) == 0);
	CHILD_CHECK(pack_write_end(&w, NULL) == 0);
	(void)close(p.files_fd);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_RUNNING);
	CHILD_CHECK(hear_exited(&p) == 0);
	ssize_t n = fd_read_full(p.listing_fd, data, sizeof(data));
	CHILD_CHECK(n > 0);
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_CAPTURED);
	cur_init(&c, data, (size_t)n);
	CHILD_CHECK(inventory_get(&l, &c) == 0);
	CHILD_CHECK(l.n == 5 && !l.is_cut);
	CHILD_CHECK(streq(l.at[0].path, "changed") && l.at[0].is_changed && l.at[0].size == 6);
	CHILD_CHECK(streq(l.at[1].path, "fifo") && l.at[1].kind == INVENTORY_OTHER);
	CHILD_CHECK(streq(l.at[2].path, "link") && l.at[2].kind == INVENTORY_LINK);
	CHILD_CHECK(streq(l.at[3].path, "new") && l.at[3].is_changed);
	CHILD_CHECK(streq(l.at[4].path, "old") && !l.at[4].is_changed);
	expect_gone(&p);
}

TEST(names_of_files_are_told_after_the_guest)
{
	SCRATCH(d);

	IN_CHILD(name_files, d.path);
}

static void refuse_files(void *ctx)
{
	struct play p;
	struct cur c;
	char text[256];

	open_box(&p, ctx);
	p.stage.spec.takes_files = true;
	send_script(&p, "echo never");
	(void)close(p.files_fd); /* without an end mark */
	CHILD_CHECK(hear(&p, &c) == MESSAGE_BOX_FAILED);
	CHILD_CHECK(cur_u32(&c) == REASON_PROVISION_FAILED);
	CHILD_CHECK(cur_u32(&c) == EBADMSG);
	cur_str_into(&c, text, sizeof(text));
	CHILD_CHECK(strstr(text, "cut short") != NULL);
	CHILD_CHECK(printed(&p, ""));
	expect_gone(&p);
}

TEST(without_its_files_a_guest_is_not_started)
{
	SCRATCH(d);

	IN_CHILD(refuse_files, d.path);
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

	open_box_as(&p, ctx, true);
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

static void ask_too_late(void *ctx)
{
	struct play p;
	struct cur c;

	open_box_as(&p, ctx, true);
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
	UNIT(a_guest_runs_and_its_end_is_told),
	UNIT(nobody_outlives_the_guest_and_nobody_harms_init),
	UNIT(what_can_not_be_started_is_told), UNIT(signals_are_passed_on),
	UNIT(signals_and_limits_of_the_keeper_are_not_the_guests),
	UNIT(a_workspace_that_did_not_come_along_is_asked_for),
	UNIT(a_signal_that_comes_before_the_workspace_waits_for_the_guest),
	UNIT(without_its_workspace_a_guest_is_not_started), UNIT(a_kill_reaches_everybody),
	UNIT(a_box_ends_with_its_control_socket), UNIT(a_box_that_is_told_nonsense_runs_nothing),
	UNIT(files_go_in_before_and_out_after), UNIT(names_of_files_are_told_after_the_guest),
	UNIT(without_its_files_a_guest_is_not_started))
