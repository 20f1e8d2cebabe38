#include "box/maker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "box/box.h"
#include "box/net.h"
#include "ipc/frame.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

#define UID 0x70001234u

static uint8_t buffer[FRAME_SIZE_MAX];

static void ask(const struct stage *s, const struct maker *m, const struct box_order *order,
	struct box *ret)
{
	struct err err = { 0 };
	int init_fd = -1;

	if (box_prepare(&s->host, order, ret, &init_fd, &err) < 0 ||
		maker_ask(m, order, ret, init_fd, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	(void)close(init_fd);
}

static int hear(const struct maker *m, struct box *box, struct err *err)
{
	struct pollfd p = { .fd = m->control_fd, .events = POLLIN };

	CHILD_CHECK(poll(&p, 1, 20000) == 1);
	return maker_hear(m, buffer, box, err);
}

static void make_two(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box boxes[2];
	struct maker m = { .control_fd = -1 };

	stage_host(&s, ctx);
	size_t n_before = scratch_count_fds();
	if (maker_start(&s.host, &m, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	CHILD_CHECK(maker_hear(&m, buffer, &boxes[0], &err) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		ask(&s, &m, &STAGE_ORDER(s.root, UID + (uid_t)i), &boxes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		CHILD_CHECK(hear(&m, &boxes[i], &err) == 1 && boxes[i].pid > 0);
	CHILD_CHECK(boxes[0].pid != boxes[1].pid);
	maker_fini(&m); /* its boxes go on: they are our children */
	CHILD_CHECK(m.pid == 0 && m.control_fd == -1);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++) {
		CHILD_CHECK(!box_reap(&boxes[i]));
		box_fini(&boxes[i]);
	}
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(boxes_are_ours_whoever_makes_them)
{
	SCRATCH(d);

	IN_CHILD(make_two, d.path);
}

static void finish_first(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box boxes[3];
	struct maker m = { .control_fd = -1 };

	stage_host(&s, ctx);
	CHILD_CHECK(maker_start(&s.host, &m, &err) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		ask(&s, &m, &STAGE_ORDER(s.root, UID + (uid_t)i), &boxes[i]);
	maker_dismiss(&m);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		CHILD_CHECK(maker_hear(&m, buffer, &boxes[i], &err) == 1);
	CHILD_CHECK(maker_hear(&m, buffer, &boxes[0], &err) == -EPIPE);
	maker_fini(&m);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		box_fini(&boxes[i]);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(what_is_due_comes_before_it_ends)
{
	SCRATCH(d);

	IN_CHILD(finish_first, d.path);
}

static void fail_and_go_on(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box box, other;
	struct maker m = { .control_fd = -1 };

	stage_host(&s, ctx);
	CHILD_CHECK(maker_start(&s.host, &m, &err) == 0);
	AUTO_FD null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct root no_root = { .ns_fd = null_fd };
	ask(&s, &m, &STAGE_ORDER(&no_root, UID), &box);
	CHILD_CHECK(hear(&m, &box, &err) == -ECANCELED);
	CHILD_CHECK(strstr(err.text, "make namespaces"));
	CHILD_CHECK(box.pid == 0);
	ask(&s, &m, &STAGE_ORDER(s.root, UID), &other);
	CHILD_CHECK(hear(&m, &other, &err) == 1);
	box_fini(&box);
	box_fini(&other);

	CHILD_CHECK(kill(m.pid, SIGKILL) == 0);
	CHILD_CHECK(hear(&m, &other, &err) == -EPIPE);
	maker_fini(&m);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(one_that_can_not_be_made_is_told_and_so_is_its_end)
{
	SCRATCH(d);

	IN_CHILD(fail_and_go_on, d.path);
}

static void have_no_room(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box box, other;
	struct maker m = { .control_fd = -1 };
	struct rlimit limit;

	stage_host(&s, ctx);
	CHILD_CHECK(maker_start(&s.host, &m, &err) == 0);
	ask(&s, &m, &STAGE_ORDER(s.root, UID), &box);
	struct pollfd p = { .fd = m.control_fd, .events = POLLIN };
	CHILD_CHECK(poll(&p, 1, 20000) == 1);
	CHILD_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, limit.rlim_max }) == 0);
	CHILD_CHECK(maker_hear(&m, buffer, &box, &err) == -ECANCELED);
	CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHILD_CHECK(box.pid > 0 && box.pid_fd == -1);
	CHILD_CHECK(waitpid(box.pid, NULL, 0) == box.pid);
	box.pid = 0;
	ask(&s, &m, &STAGE_ORDER(s.root, UID), &other); /* no fault of the maker's */
	CHILD_CHECK(hear(&m, &other, &err) == 1);
	box_fini(&box);
	box_fini(&other);
	maker_fini(&m);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(one_for_which_no_descriptor_is_left_is_ended)
{
	SCRATCH(d);

	IN_CHILD(have_no_room, d.path);
}

static void inherit_nothing(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box box;
	struct maker m = { .control_fd = -1 };
	char path[64];

	stage_host(&s, ctx);
	for (int i = 0; i < 100; i++)
		CHILD_CHECK(open("/dev/null", O_RDONLY) >= 0);
	CHILD_CHECK(maker_start(&s.host, &m, &err) == 0);
	ask(&s, &m, &STAGE_ORDER(s.root, UID), &box);
	CHILD_CHECK(hear(&m, &box, &err) == 1);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)m.pid);
	CHILD_CHECK(scratch_count_entries(path) < 16);
	box_fini(&box);
	maker_fini(&m);
}

TEST(it_has_no_descriptor_of_ours)
{
	SCRATCH(d);

	IN_CHILD(inherit_nothing, d.path);
}

/* A keeper that ends when a box was made; `pids` are those of the maker, and of somebody who holds
 * the keeper's end of the socket open. */
static _Noreturn void be_short_lived_keeper(const struct stage *s, int report_fd)
{
	struct err err = { 0 };
	struct box box;
	struct maker m = { .control_fd = -1 };
	pid_t pids[2];

	CHILD_CHECK(maker_start(&s->host, &m, &err) == 0);
	ask(s, &m, &STAGE_ORDER(s->root, UID), &box);
	CHILD_CHECK(hear(&m, &box, &err) == 1);
	pids[0] = m.pid;
	pids[1] = fork();
	for (;;) {
		if (pids[1] == 0)
			(void)pause();
		else if (fd_write_full(report_fd, pids, sizeof(pids)) == 0)
			_exit(0);
	}
}

static void die_before_it(void *ctx)
{
	struct stage s = { 0 };
	pid_t pids[2];
	int read_fd, write_fd;

	stage_host(&s, ctx);
	CHILD_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	CHILD_CHECK(fd_pipe(&read_fd, &write_fd) == 0);
	pid_t keeper = fork();
	if (keeper == 0)
		be_short_lived_keeper(&s, write_fd);
	CHILD_CHECK(fd_read_full(read_fd, pids, sizeof(pids)) == (ssize_t)sizeof(pids));
	CHILD_CHECK(waitpid(keeper, NULL, 0) == keeper);
	struct pollfd gone = { (int)syscall(SYS_pidfd_open, pids[0], 0), POLLIN, 0 };
	bool is_gone = poll(&gone, 1, 5000) == 1;
	(void)kill(pids[0], SIGKILL);
	(void)kill(pids[1], SIGKILL);
	CHILD_CHECK(is_gone);
}

/* It was another user since it asked for that, and the kernel forgets it then. */
TEST(it_ends_with_its_keeper_after_each_box)
{
	SCRATCH(d);

	IN_CHILD(die_before_it, d.path);
}

TESTS(UNIT(one_for_which_no_descriptor_is_left_is_ended),
	UNIT(it_ends_with_its_keeper_after_each_box), UNIT(boxes_are_ours_whoever_makes_them),
	UNIT(what_is_due_comes_before_it_ends),
	UNIT(one_that_can_not_be_made_is_told_and_so_is_its_end),
	UNIT(it_has_no_descriptor_of_ours))
