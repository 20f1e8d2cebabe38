/* Needs real control groups, of whatever version the host has, in which we may make some, and is
 * skipped where there are none. What each version reads and writes is checked against plain
 * files by cgroup_tree_test.c. */
#include "box/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_sample.h"
#include "ipc/result.h"
#include "ipc/spec.h"
#include "lib/test.h"

static bool fires(const struct cgroup *cg, int timeout_ms)
{
	struct epoll_event want = { .events = cgroup_event_mask(cg) };
	struct epoll_event got = { 0 };
	AUTO_FD fd = epoll_create1(EPOLL_CLOEXEC);

	CHECK_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, cgroup_event_fd(cg), &want), 0);
	return epoll_wait(fd, &got, 1, timeout_ms) == 1;
}

TEST(bad_names_are_refused)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "memory.max", "a b", "ä",
		"12345678901234567890123456789012345678901234567890123456789012345" };
	struct cgroup_host *h = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(cgroup_host_open(&h, bad[i], NULL), -EINVAL);
		CHECK_EQ(cgroup_sweep(bad[i], NULL), -EINVAL);
	}
	CHECK(h == NULL);
}

TEST(a_host_leaves_nothing_behind)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host();
	char name[CGROUP_NAME_MAX + 1];
	struct cgroup_host *again = NULL;
	struct err err = { 0 };

	(void)snprintf(name, sizeof(name), "%s", h->name);
	print_message("control groups: %s, facets %llx\n", cgroup_host_describe(h),
		(unsigned long long)cgroup_host_facets(h));
	CHECK(has_group(name));
	CHECK_EQ(cgroup_host_open(&again, name, &err), -EEXIST);
	CHECK(strstr(err.text, name));
	CHECK(has_group(name)); /* the failure took nothing away */
	cgroup_host_free(TAKE(h));
	CHECK(!has_group(name));
}

TEST(a_plain_user_gets_an_honest_host)
{
	if (geteuid() != 0)
		SKIP("needs root to become somebody else");
	pid_t pid = fork();
	if (pid == 0) {
		struct cgroup_host *h = NULL;
		struct cgroup *cg = NULL;

		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(1);
		if (cgroup_host_open(&h, fresh_name(), NULL) < 0)
			_exit(2);
		if (cgroup_host_facets(h) != 0 || !streq(cgroup_host_describe(h), "none"))
			_exit(3);
		/* a box without a group is still a box */
		if (cgroup_new(h, "box", &cg, NULL) < 0 || cgroup_set_limits(cg, &wide, NULL) < 0)
			_exit(4);
		if (cgroup_clone_fd(cg) != -1 || cgroup_event_fd(cg) != -1)
			_exit(5);
		if (cgroup_kill(cg) != -EOPNOTSUPP || cgroup_remove(cg) != 0)
			_exit(6);
		cgroup_free(cg);
		cgroup_host_free(h);
		_exit(0);
	}
	int status = wait_for(pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(two_groups_of_one_name_are_refused)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host();
	struct cgroup *second = NULL;

	struct cgroup *first = make_group(h, &wide);
	CHECK_EQ(cgroup_new(h, "box", &second, NULL), -EEXIST);
	CHECK_EQ(cgroup_set_limits(first, &wide, NULL), 0); /* the first is still there */
	remove_group(first);
}

TEST(limits_are_checked_and_missing_groups_are_errors)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_MEMORY);
	CLEANUP(cgroup_freep) struct cgroup *cg = make_group(h, &wide);
	struct limits l = wide;
	struct err err = { 0 };

	l.pids = 0;
	CHECK_EQ(cgroup_set_limits(cg, &l, NULL), -EINVAL);
	l = wide;
	l.memory_bytes = 0;
	CHECK_EQ(cgroup_set_limits(cg, &l, NULL), -EINVAL);
	l = wide;
	l.cpu_milli = 9;
	CHECK_EQ(cgroup_set_limits(cg, &l, NULL), -EINVAL);
	l.cpu_milli = 10;
	CHECK_EQ(cgroup_set_limits(cg, &l, &err), 0);
	l.cpu_milli = UINT64_MAX;
	CHECK_EQ(cgroup_set_limits(cg, &l, NULL), -EINVAL);
	CHECK_EQ(cgroup_remove(cg), 0);
	l = wide;
	l.memory_bytes *= 2; /* what it is already is not written */
	CHECK_EQ(cgroup_set_limits(cg, &l, &err), -ENOENT);
	CHECK(strstr(err.text, "memory."));
}

TEST(limits_go_down_and_up_again)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_MEMORY);
	struct cgroup *cg = make_group(h, &wide);
	struct limits l = { .memory_bytes = 32 * MIB, .cpu_milli = 100, .pids = 3 };
	struct err err = { 0 };

	CHECK_EQ(cgroup_set_limits(cg, &l, &err), 0);
	CHECK_EQ(cgroup_set_limits(cg, &wide, &err), 0);
	CHECK_EQ(cgroup_set_limits(cg, &l, &err), 0);
	remove_group(cg);
}

static void put_pids(const struct cgroup *cg, const char *text)
{
	char path[CGROUP_NAME_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/pids.max", cg->name);
	for (size_t i = 0; i < cg->host->n_trees; i++)
		if (cg->host->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_PIDS))
			CHECK_EQ(fd_write_text(cg->host->trees[i].parent_fd, path, text), 0);
}

static uint64_t get_pids(const struct cgroup *cg)
{
	char path[CGROUP_NAME_MAX + 16];
	char text[32];
	uint64_t n = 0;

	(void)snprintf(path, sizeof(path), "%s/pids.max", cg->name);
	for (size_t i = 0; i < cg->host->n_trees; i++)
		if (cg->host->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_PIDS)) {
			CHECK(fd_read_text(cg->host->trees[i].parent_fd, path, text, sizeof(text)) >
				0);
			CHECK_EQ(str_parse_u64(text, UINT64_MAX, &n), 0);
		}
	return n;
}

TEST(what_a_limit_is_already_is_not_written_again)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_PIDS);
	struct cgroup *cg = make_group(h, &wide);
	struct limits bad = wide;
	struct limits other = wide;

	put_pids(cg, "7");
	CHECK_EQ(cgroup_set_limits(cg, &wide, NULL), 0);
	CHECK_EQ(get_pids(cg), 7);
	bad.memory_bytes = 0;
	CHECK_EQ(cgroup_set_limits(cg, &bad, NULL), -EINVAL);
	CHECK_EQ(cgroup_set_limits(cg, &wide, NULL), 0);
	CHECK_EQ(get_pids(cg), 7); /* what was refused changed nothing */
	other.pids = 9;
	CHECK_EQ(cgroup_set_limits(cg, &other, NULL), 0);
	CHECK_EQ(get_pids(cg), 9);
	CHECK_EQ(cgroup_set_limits(cg, &wide, NULL), 0);
	CHECK_EQ(get_pids(cg), wide.pids);
	remove_group(cg);
}

static void touch_64_mib(void)
{
	size_t size = 64 * MIB;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(3);
	for (size_t i = 0; i < size; i += 4096)
		((volatile char *)p)[i] = 1;
}

TEST(memory_past_the_limit_is_death_and_an_event)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_MEMORY);
	struct limits l = wide;
	struct cgroup_stats s;

	l.memory_bytes = 16 * MIB;
	struct cgroup *cg = make_group(h, &l);
	CHECK(!fires(cg, 20));
	int status = wait_for(start_in(cg, touch_64_mib));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(fires(cg, 1000));
	CHECK(cgroup_ack_event(cg));
	pause_ms(20); /* v2 may tell of several things, at most every 10 ms */
	(void)cgroup_ack_event(cg);
	CHECK(!fires(cg, 50));
	cgroup_read_stats(cg, &s);
	CHECK(s.oom_kills > 0 && s.oom_kills < 3); /* a group's victim may count twice */
	if (s.peak_bytes != USAGE_UNKNOWN) {
		CHECK(s.peak_bytes > 12 * MIB);
		CHECK(s.peak_bytes <= 16 * MIB);
	}
	remove_group(cg);
}

TEST(memory_below_the_limit_is_left_alone)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_MEMORY);
	struct cgroup *cg = make_group(h, &wide);
	struct cgroup_stats s;

	CHECK_EQ(wait_for(start_in(cg, touch_64_mib)), 0);
	cgroup_read_stats(cg, &s);
	CHECK_EQ(s.oom_kills, 0);
	if (s.peak_bytes != USAGE_UNKNOWN)
		CHECK(s.peak_bytes >= 64 * MIB && s.peak_bytes < 128 * MIB);
	CHECK(!fires(cg, 0));
	CHECK(!cgroup_ack_event(cg));
	remove_group(cg);
}

/* Exit code: how many could be forked. They all stay until the end. */
static void fork_many(void)
{
	int n = 0;

	while (n < 50) {
		pid_t pid = fork();
		if (pid == 0) {
			(void)pause();
			_exit(0);
		}
		if (pid < 0)
			_exit(errno == EAGAIN ? n : 98);
		n++;
	}
	_exit(n);
}

TEST(forks_past_the_limit_fail)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_PIDS);
	struct limits l = wide;
	struct cgroup_stats s;

	l.pids = 5;
	struct cgroup *cg = make_group(h, &l);
	int status = wait_for(start_in(cg, fork_many));
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 4);
	cgroup_read_stats(cg, &s);
	CHECK(s.pids_max_hits == 1 || s.pids_max_hits == USAGE_UNKNOWN);
	CHECK(s.pids_peak == 5 || s.pids_peak == USAGE_UNKNOWN);
	CHECK_EQ(cgroup_remove(cg), -EBUSY);
	CHECK_EQ(cgroup_kill(cg), 0);
	remove_group(cg);
}

static void spin(void)
{
	for (;;)
		continue;
}

TEST(processor_time_is_rationed)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_CPU);
	struct limits l = wide;
	struct cgroup_stats s;

	l.cpu_milli = 100;
	struct cgroup *cg = make_group(h, &l);
	pid_t pid = start_in(cg, spin);
	pause_ms(1000);
	CHECK_EQ(cgroup_kill(cg), 0);
	(void)wait_for(pid);
	cgroup_read_stats(cg, &s);
	if (s.cpu_us == USAGE_UNKNOWN)
		SKIP("this host does not tell processor time");
	/* ten periods of 10 ms each, and slack for a busy machine */
	CHECK(s.cpu_us > 20000);
	CHECK(s.cpu_us < 250000);
	remove_group(cg);
}

static uint64_t get_cpu_us(struct cgroup *cg)
{
	struct cgroup_stats s;

	cgroup_read_stats(cg, &s);
	return s.cpu_us;
}

TEST(what_is_frozen_uses_no_processor_time_and_can_be_killed)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_PIDS);
	struct cgroup *cg = make_group(h, &wide);
	pid_t pid = start_in(cg, spin);

	int r = cgroup_freeze(cg, true);
	pause_ms(100); /* it takes effect soon, not at once */
	uint64_t before = get_cpu_us(cg);
	pause_ms(200);
	uint64_t frozen = get_cpu_us(cg);
	CHECK(r != 0 || cgroup_freeze(cg, false) == 0);
	pause_ms(200);
	uint64_t thawed = get_cpu_us(cg);
	CHECK(r != 0 || cgroup_freeze(cg, true) == 0);
	CHECK_EQ(cgroup_kill(cg), 0);
	(void)wait_for(pid);
	remove_group(cg);
	if (r == -EOPNOTSUPP || before == USAGE_UNKNOWN)
		SKIP("this host can not freeze, or does not tell processor time");
	CHECK_EQ(r, 0);
	CHECK_EQ(frozen, before);
	CHECK(thawed > frozen);
}

TEST(the_child_may_join_without_privilege)
{
	if (geteuid() != 0)
		SKIP("needs root to become somebody else");
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host();
	struct cgroup *cg = make_group(h, &wide);
	const int *fds = NULL;
	size_t n = cgroup_join_fds(cg, &fds);

	pid_t pid = clone_process(0, cgroup_clone_fd(cg), NULL);
	if (pid == 0) {
		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(1);
		_exit(cgroup_join(fds, n, NULL) < 0 ? 2 : 0);
	}
	CHECK_EQ(wait_for(pid), 0);
	cgroup_close_join(cg);
	CHECK_EQ(cgroup_clone_fd(cg), -1);
	n = cgroup_join_fds(cg, &fds);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(fds[i], -1);
	remove_group(cg);
}

/* A process that can not be got rid of by asking nicely, and has children. */
static void be_stubborn(void)
{
	(void)signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			break;
	for (;;)
		(void)pause();
}

static void fork_for_ever(void)
{
	(void)signal(SIGCHLD, SIG_IGN);
	for (;;)
		if (fork() == 0) {
			if (fork() > 0)
				_exit(0);
		}
}

static void check_killed(struct cgroup_host *h, void (*body)(void), bool by_list)
{
	struct cgroup *cg = make_group(h, &wide);
	pid_t pid = start_in(cg, body);
	int r = -EAGAIN;

	pause_ms(30);
	CHECK_EQ(cgroup_remove(cg), -EBUSY);
	for (int i = 0; i < 100 && r == -EAGAIN; i++) {
		if (by_list) {
			AUTO_FD fd = openat(
				h->trees[0].parent_fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			r = cgroup_kill_listed(fd);
		} else {
			r = cgroup_kill(cg);
		}
	}
	CHECK_EQ(r, 0);
	int status = wait_for(pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	remove_group(cg);
}

TEST(kill_reaches_everyone)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_PIDS);

	check_killed(h, be_stubborn, false);
	check_killed(h, fork_for_ever, false);
}

TEST(kill_reaches_everyone_without_help_of_the_unified_hierarchy)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_PIDS);

	check_killed(h, be_stubborn, true);
	/* what cgroup_kill() does on a host that has v1 only */
	if (h->n_trees > 1 && h->trees[0].ops == &cgroup_v2) {
		struct cgroup_tree unified = h->trees[0];

		memmove(h->trees, h->trees + 1, --h->n_trees * sizeof(h->trees[0]));
		check_killed(h, be_stubborn, false);
		check_killed(h, fork_for_ever, false);
		struct cgroup *cg = make_group(h, &wide);
		CHECK_EQ(cgroup_kill(cg), 0);
		CHECK_EQ(get_pids(cg), 0);
		CHECK_EQ(cgroup_set_limits(cg, &wide, NULL), 0);
		CHECK_EQ(get_pids(cg), wide.pids); /* its limit is known to be gone */
		remove_group(cg);
		h->trees[h->n_trees++] = unified;
	}
}

TEST(kill_of_an_empty_group_is_fine)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host_with(FACET_PIDS);
	struct cgroup *cg = make_group(h, &wide);

	CHECK_EQ(cgroup_kill(cg), 0);
	remove_group(cg);
}

/* A keeper that dies with two boxes alive; the pid of a process in one of them
 * is written to `fd`. */
static void die_with_boxes(const char *name, int fd)
{
	struct cgroup_host *h = NULL;
	struct cgroup *a = NULL;
	struct cgroup *b = NULL;

	if (cgroup_host_open(&h, name, NULL) < 0 || cgroup_new(h, "a", &a, NULL) < 0 ||
		cgroup_new(h, "b", &b, NULL) < 0)
		_exit(1);
	(void)start_in(a, be_stubborn);
	pid_t pid = start_in(b, be_stubborn);
	_exit(write(fd, &pid, sizeof(pid)) == sizeof(pid) ? 0 : 1);
}

TEST(what_a_dead_keeper_left_is_swept)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *probe = open_host();
	int read_fd = -1;
	int write_fd = -1;
	pid_t orphan = 0;
	struct err err = { 0 };

	const char *name = fresh_name();
	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	pid_t pid = fork();
	if (pid == 0)
		die_with_boxes(name, write_fd);
	CHECK_EQ(wait_for(pid), 0);
	CHECK_EQ(fd_read_full(read_fd, &orphan, sizeof(orphan)), sizeof(orphan));
	(void)close(read_fd);
	(void)close(write_fd);
	pause_ms(20);
	CHECK_EQ(kill(orphan, 0), 0);
	CHECK(has_group(name));

	if (cgroup_sweep(name, &err) < 0)
		fail_msg("%s", err.text);
	CHECK(!has_group(name));
	CHECK(has_group(probe->name)); /* the other one was left alone */
	CHECK_EQ(cgroup_sweep(name, &err), 0);
}

TEST(nobody_sweeps_away_himself)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_host();
	struct cgroup *cg = make_group(h, &wide);
	const int *fds = NULL;
	size_t n = cgroup_join_fds(cg, &fds);

	pid_t pid = clone_process(0, cgroup_clone_fd(cg), NULL);
	if (pid == 0) {
		if (cgroup_join(fds, n, NULL) < 0)
			_exit(1);
		_exit(cgroup_sweep(h->name, NULL) == -EDEADLK ? 0 : 2);
	}
	CHECK_EQ(wait_for(pid), 0);
	remove_group(cg);
}

TEST(nothing_of_this_test_is_left)
{
	char prefix[CGROUP_NAME_MAX];

	(void)snprintf(prefix, sizeof(prefix), "belljartest-%d-", getpid());
	CHECK(!has_group(prefix));
}

TESTS(UNIT(bad_names_are_refused), UNIT(a_host_leaves_nothing_behind),
	UNIT(a_plain_user_gets_an_honest_host), UNIT(two_groups_of_one_name_are_refused),
	UNIT(limits_are_checked_and_missing_groups_are_errors), UNIT(limits_go_down_and_up_again),
	UNIT(what_a_limit_is_already_is_not_written_again),
	UNIT(memory_past_the_limit_is_death_and_an_event),
	UNIT(memory_below_the_limit_is_left_alone), UNIT(forks_past_the_limit_fail),
	UNIT(processor_time_is_rationed),
	UNIT(what_is_frozen_uses_no_processor_time_and_can_be_killed),
	UNIT(the_child_may_join_without_privilege), UNIT(kill_reaches_everyone),
	UNIT(kill_reaches_everyone_without_help_of_the_unified_hierarchy),
	UNIT(kill_of_an_empty_group_is_fine), UNIT(what_a_dead_keeper_left_is_swept),
	UNIT(nobody_sweeps_away_himself), UNIT(nothing_of_this_test_is_left))
