/* Most of this needs real control groups, of whatever version the host has, in
 * which we may make some, and is skipped where there are none. What the other version reads and
 * writes is checked against plain files. */
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
#include "box/cgroup_backend.h"
#include "box/clone.h"
#include "ipc/result.h"
#include "ipc/spec.h"
#include "lib/test.h"

#define MIB (1ull << 20)

static const struct limits wide = { .memory_bytes = 256 * MIB, .cpu_milli = 2000, .pids = 64 };

/* A name of a parent group that no other test or keeper has. */
static const char *fresh_name(void)
{
	static char name[CGROUP_NAME_MAX + 1];
	static int count;

	(void)snprintf(name, sizeof(name), "belljartest-%d-%d", getpid(), count++);
	return name;
}

static struct cgroup_host *open_host(void)
{
	struct cgroup_host *h = NULL;
	struct err err = { 0 };

	if (cgroup_host_open(&h, fresh_name(), &err) < 0)
		fail_msg("%s", err.text);
	if (h->n_trees == 0) {
		cgroup_host_free(h);
		SKIP("no control groups in which we could make one");
	}
	return h;
}

static struct cgroup_host *open_host_with(enum facet facet)
{
	struct cgroup_host *h = open_host();

	if (!(cgroup_host_facets(h) & FACET_BIT(facet))) {
		cgroup_host_free(h);
		SKIP("this host has no controller for it");
	}
	return h;
}

static struct cgroup *make_group(const struct cgroup_host *h, const struct limits *limits)
{
	struct cgroup *cg = NULL;
	struct err err = { 0 };

	if (cgroup_new(h, "box", &cg, &err) < 0 || cgroup_set_limits(cg, limits, &err) < 0)
		fail_msg("%s", err.text);
	return cg;
}

/* Run `body` in the group, in a child which is its own session. */
static pid_t start_in(const struct cgroup *cg, void (*body)(void))
{
	const int *fds = NULL;
	size_t n = cgroup_join_fds(cg, &fds);
	pid_t pid = clone_process(0, cgroup_clone_fd(cg), NULL);

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	if (cgroup_join(fds, n, NULL) < 0)
		_exit(99);
	body();
	_exit(0);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	(void)nanosleep(&t, NULL);
}

static void remove_group(struct cgroup *cg)
{
	int r = -EBUSY;

	for (int i = 0; i < 1000 && r == -EBUSY; i++) {
		r = cgroup_remove(cg);
		if (r == -EBUSY)
			pause_ms(1);
	}
	CHECK_EQ(r, 0);
	cgroup_free(cg);
}

static const char *wanted;

static int is_wanted(const char *path, const struct stat *st, int kind, struct FTW *place)
{
	(void)st;
	return kind == FTW_D && str_after(path + place->base, wanted);
}

/* True when some hierarchy has a group whose name begins with `prefix`. */
static bool has_group(const char *prefix)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts mounts = { 0 };
	bool found = false;

	wanted = prefix;
	CHECK_EQ(cgroup_mounts_read(&mounts, NULL), 0);
	for (size_t i = 0; i < mounts.n && !found; i++)
		found = nftw(mounts.items[i].path, is_wanted, 16, FTW_PHYS | FTW_MOUNT) == 1;
	return found;
}

static bool fires(const struct cgroup *cg, int timeout_ms)
{
	struct epoll_event want = { .events = cgroup_event_mask(cg) };
	struct epoll_event got = { 0 };
	AUTO_FD fd = epoll_create1(EPOLL_CLOEXEC);

	CHECK_EQ(epoll_ctl(fd, EPOLL_CTL_ADD, cgroup_event_fd(cg), &want), 0);
	return epoll_wait(fd, &got, 1, timeout_ms) == 1;
}

/* --- what the kernel tells --- */

static void parse(struct cgroup_mounts *m, const char *mountinfo, const char *self)
{
	AUTO_FREE char *a = xstrdup(mountinfo);
	AUTO_FREE char *b = xstrdup(self);

	cgroup_mounts_parse(m, a, b);
}

TEST(hybrid_mounts_are_found_with_the_unified_one_first)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts m;

	parse(&m,
		"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		"37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
		"40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
		"41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw\n",
		"4:memory:/a/b\n2:cpuacct,cpu:/\n0::/user.slice\n");
	CHECK_EQ(m.n, 3);
	CHECK(m.items[0].ops == &cgroup_v2);
	CHECK_STR(m.items[0].path, "/sys/fs/cgroup/uni fied");
	CHECK_STR(m.items[0].own, "user.slice");
	CHECK(m.items[1].ops == &cgroup_v1);
	CHECK_EQ(m.items[1].controllers, CONTROLLER_BIT(CONTROLLER_MEMORY));
	CHECK_STR(m.items[1].own, "a/b");
	CHECK_EQ(m.items[2].controllers,
		CONTROLLER_BIT(CONTROLLER_CPU) | CONTROLLER_BIT(CONTROLLER_CPUACCT));
	CHECK_STR(m.items[2].own, "");
}

TEST(own_group_is_relative_to_what_is_mounted)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts m;

	parse(&m, "1 2 0:1 /docker/x /cg ro - cgroup cgroup rw,pids\n", "3:pids:/docker/x/y\n");
	CHECK_EQ(m.n, 1);
	CHECK_STR(m.items[0].own, "y");
	cgroup_mounts_fini(&m);

	parse(&m, "1 2 0:1 /docker/x /cg ro - cgroup cgroup rw,pids\n", "3:pids:/docker/xy\n");
	CHECK(m.items[0].own == NULL);
	cgroup_mounts_fini(&m);

	parse(&m, "1 2 0:1 / /cg ro - cgroup2 cgroup2 rw\n", "0::/../other\n");
	CHECK(m.items[0].own == NULL);
	cgroup_mounts_fini(&m);

	/* who was moved to the leaf belongs to the group above it */
	parse(&m, "1 2 0:1 / /cg ro - cgroup2 cgroup2 rw\n", "0::/a/" CGROUP_LEAF "\n");
	CHECK_STR(m.items[0].own, "a");
	cgroup_mounts_fini(&m);
	parse(&m, "1 2 0:1 / /cg ro - cgroup2 cgroup2 rw\n", "0::/" CGROUP_LEAF "\n");
	CHECK_STR(m.items[0].own, "");
}

TEST(broken_and_foreign_mounts_are_left_out)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts m;

	parse(&m,
		"\n1 2\n1 2 0:1 / /cg\n1 2 0:1 / /cg rw -\n1 2 0:1 / /cg rw - cgroup2\n"
		"1 2 0:1 /../.. /cg rw - cgroup2 cgroup2 rw\n"
		"1 2 0:1 / /first rw - cgroup cgroup rw,memory\n"
		"1 2 0:1 / /second rw - cgroup cgroup rw,memory",
		"x\n:\n4:memory\n4:memory:relative\n");
	CHECK_EQ(m.n, 1);
	CHECK_STR(m.items[0].path, "/first");
	CHECK(m.items[0].own == NULL);
}

TEST(controllers_are_whole_words)
{
	CHECK_EQ(cgroup_parse_controllers("cpuset io memory hugetlb pids", " "),
		CONTROLLER_BIT(CONTROLLER_MEMORY) | CONTROLLER_BIT(CONTROLLER_PIDS));
	CHECK_EQ(cgroup_parse_controllers("", " "), 0);
	CHECK_EQ(cgroup_parse_controllers("rw,cpuacct", ","), CONTROLLER_BIT(CONTROLLER_CPUACCT));
}

/* --- plain files in place of a kernel's --- */

struct fake {
	char path[64];
	struct cgroup_tree tree;
};

static struct fake make_fake(const struct cgroup_ops *ops)
{
	struct fake f = { .path = "/tmp/cgroup_test.XXXXXX" };

	CHECK(mkdtemp(f.path));
	f.tree.ops = ops;
	f.tree.controllers = CONTROLLERS_LIMITS | CONTROLLER_BIT(CONTROLLER_CPUACCT);
	f.tree.knobs = UINT32_MAX;
	f.tree.parent_fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f.tree.base_fd = -1;
	CHECK(f.tree.parent_fd >= 0);
	CHECK_EQ(mkdirat(f.tree.parent_fd, "box", 0755), 0);
	return f;
}

static void fake_fini(struct fake *f)
{
	close_fdp(&f->tree.parent_fd);
	CHECK_EQ(fd_remove_tree(AT_FDCWD, f->path), 0);
}

static void put_file(const struct fake *f, const char *name, const char *text)
{
	AUTO_FD fd =
		openat(f->tree.parent_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

static void check_file(const struct fake *f, const char *name, const char *text)
{
	char got[256];

	CHECK(fd_read_text(f->tree.parent_fd, name, got, sizeof(got)) >= 0);
	CHECK_STR(got, text);
}

TEST(v2_limits_are_written_as_the_kernel_wants_them)
{
	static const char *const files[] = { "box/memory.max", "box/memory.oom.group",
		"box/pids.max", "box/cpu.max" };
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct limits l = { .memory_bytes = 64 * MIB, .cpu_milli = 1500, .pids = 7 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		put_file(&f, files[i], "");
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &l, 0, &err), 0);
	check_file(&f, "box/memory.max", "67108864");
	check_file(&f, "box/memory.oom.group", "1");
	check_file(&f, "box/pids.max", "7");
	check_file(&f, "box/cpu.max", "150000 100000");
}

TEST(v1_limits_are_written_as_the_kernel_wants_them)
{
	static const char *const files[] = { "box/memory.limit_in_bytes",
		"box/memory.memsw.limit_in_bytes", "box/pids.max", "box/cpu.cfs_quota_us" };
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v1);
	struct limits l = { .memory_bytes = 64 * MIB, .cpu_milli = 500, .pids = 7 };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		put_file(&f, files[i], "");
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &l, 0, NULL), 0);
	check_file(&f, "box/memory.limit_in_bytes", "67108864");
	check_file(&f, "box/memory.memsw.limit_in_bytes", "67108864");
	check_file(&f, "box/pids.max", "7");
	check_file(&f, "box/cpu.cfs_quota_us", "50000");
	l.cpu_milli = 700;
	l.pids = 9;
	uint32_t spared = CONTROLLER_BIT(CONTROLLER_CPU);
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &l, spared, NULL), 0);
	check_file(&f, "box/pids.max", "9");
	check_file(&f, "box/cpu.cfs_quota_us", "50000");
}

TEST(a_limit_without_its_file_is_an_error_that_names_it)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct err err = { 0 };

	put_file(&f, "box/memory.max", "");
	put_file(&f, "box/memory.oom.group", "");
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &wide, 0, &err), -ENOENT);
	CHECK(strstr(err.text, "pids.max"));
}

TEST(a_limit_that_can_not_be_written_is_no_facet)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v1);

	f.tree.knobs = 0;
	put_file(&f, "box/memory.limit_in_bytes", "");
	put_file(&f, "box/cpu.cfs_quota_us", "");
	cgroup_tree_probe(&f.tree, "box", &wide);
	/* memsw may be missing, pids.max may not */
	CHECK_EQ(f.tree.controllers, CONTROLLER_BIT(CONTROLLER_MEMORY) |
					     CONTROLLER_BIT(CONTROLLER_CPU) |
					     CONTROLLER_BIT(CONTROLLER_CPUACCT));
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &wide, 0, NULL), 0);
}

static struct cgroup_stats unknown_stats(void)
{
	return (struct cgroup_stats){ USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN,
		USAGE_UNKNOWN };
}

TEST(v2_counters_are_read)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct cgroup_stats s = unknown_stats();

	put_file(&f, "box/cpu.stat", "usage_usec 123456\nuser_usec 100\nsystem_usec 1\n");
	put_file(&f, "box/memory.peak", "4096\n");
	put_file(&f, "box/memory.events", "low 0\nhigh 0\nmax 91\noom 3\noom_kill 2\n");
	put_file(&f, "box/pids.events", "max 5\n");
	cgroup_tree_read_stats(&f.tree, "box", &s);
	CHECK_EQ(s.cpu_us, 123456);
	CHECK_EQ(s.peak_bytes, 4096);
	CHECK_EQ(s.oom_kills, 2);
	CHECK_EQ(s.pids_max_hits, 5);
	CHECK(s.pids_peak == USAGE_UNKNOWN);
}

TEST(counters_that_make_no_sense_are_unknown)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct cgroup_stats s = unknown_stats();

	put_file(&f, "box/cpu.stat", "usage_usec -1\n");
	put_file(&f, "box/memory.peak", "max\n");
	put_file(&f, "box/memory.events", "oom_kill\noom_killer 1\n");
	put_file(&f, "box/pids.peak", "");
	put_file(&f, "box/pids.events", "max 18446744073709551616\n");
	cgroup_tree_read_stats(&f.tree, "box", &s);
	CHECK(s.cpu_us == USAGE_UNKNOWN);
	CHECK(s.peak_bytes == USAGE_UNKNOWN);
	CHECK(s.oom_kills == USAGE_UNKNOWN);
	CHECK(s.pids_peak == USAGE_UNKNOWN);
	CHECK(s.pids_max_hits == USAGE_UNKNOWN);
}

/* --- the real thing --- */

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
	CHECK_EQ(cgroup_set_limits(cg, &wide, &err), -ENOENT);
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
	CHECK_EQ(cgroup_join_fds(cg, &fds), 0);
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

static void check_killed(const struct cgroup_host *h, void (*body)(void), bool by_list)
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

TESTS(UNIT(hybrid_mounts_are_found_with_the_unified_one_first),
	UNIT(own_group_is_relative_to_what_is_mounted),
	UNIT(broken_and_foreign_mounts_are_left_out), UNIT(controllers_are_whole_words),
	UNIT(v2_limits_are_written_as_the_kernel_wants_them),
	UNIT(v1_limits_are_written_as_the_kernel_wants_them),
	UNIT(a_limit_without_its_file_is_an_error_that_names_it),
	UNIT(a_limit_that_can_not_be_written_is_no_facet), UNIT(v2_counters_are_read),
	UNIT(counters_that_make_no_sense_are_unknown), UNIT(bad_names_are_refused),
	UNIT(a_host_leaves_nothing_behind), UNIT(a_plain_user_gets_an_honest_host),
	UNIT(two_groups_of_one_name_are_refused),
	UNIT(limits_are_checked_and_missing_groups_are_errors), UNIT(limits_go_down_and_up_again),
	UNIT(memory_past_the_limit_is_death_and_an_event),
	UNIT(memory_below_the_limit_is_left_alone), UNIT(forks_past_the_limit_fail),
	UNIT(processor_time_is_rationed), UNIT(the_child_may_join_without_privilege),
	UNIT(kill_reaches_everyone),
	UNIT(kill_reaches_everyone_without_help_of_the_unified_hierarchy),
	UNIT(kill_of_an_empty_group_is_fine), UNIT(what_a_dead_keeper_left_is_swept),
	UNIT(nobody_sweeps_away_himself), UNIT(nothing_of_this_test_is_left))
