/* Needs real control groups, and is skipped where there are none. */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "box/cgroup_sample.h"
#include "ipc/result.h"
#include "lib/scratch.h"

#define BURN_NS UINT64_C(100000000)

/* Of each group that is used again so many files stay open at most. */
#define HELD_FDS 14

static struct cgroup *take(struct cgroup_host *h, const char *name)
{
	struct cgroup *cg = NULL;
	struct err err = { 0 };

	if (cgroup_take(h, name, &cg, &err) < 0 || cgroup_set_limits(cg, &wide, &err) < 0)
		fail_msg("%s", err.text);
	return cg;
}

static void give(struct cgroup_host *h, struct cgroup *cg)
{
	int r = -EBUSY;

	for (int i = 0; i < 1000 && r == -EBUSY; i++) {
		r = cgroup_give(h, cg);
		if (r == -EBUSY)
			pause_ms(1);
	}
	CHECK_EQ(r, 0);
}

/* One whose groups can be kept. */
static struct cgroup_host *open_divided_host(void)
{
	struct cgroup_host *h = open_host_with(FACET_MEMORY);

	if (h->n_trees == 1) {
		cgroup_host_free(h);
		SKIP("all controllers are in one hierarchy");
	}
	return h;
}

static void burn(void)
{
	while (clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) < BURN_NS)
		;
}

static void do_nothing(void) {}

static void fork_two(void)
{
	for (int i = 0; i < 2; i++) {
		if (fork() == 0)
			break;
	}
	pause_ms(50);
	_exit(0);
}

TEST(a_group_is_used_again_and_counts_anew)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup_stats s;

	struct cgroup *cg = take(h, "first");
	CHECK_EQ(wait_for(start_in(cg, burn)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.cpu_us > 30000); /* as USAGE_UNKNOWN is, too */
	give(h, cg);
	CHECK_EQ(h->n_kept, 1);
	cg = take(h, "second");
	CHECK_STR(cg->name, "first");
	CHECK_EQ(h->n_kept, 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.cpu_us == 0 || s.cpu_us == USAGE_UNKNOWN);
	CHECK_EQ(wait_for(start_in(cg, do_nothing)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.cpu_us == USAGE_UNKNOWN || s.cpu_us < 30000);
	give(h, cg);
}

static void fill_memory(void)
{
	enum { SIZE = 8 << 20 };
	char *data = malloc(SIZE);

	if (!data)
		_exit(1);
	for (size_t i = 0; i < SIZE; i += 4096)
		((volatile char *)data)[i] = 1;
}

static ino_t memory_group_of(struct cgroup_host *h, const struct cgroup *cg)
{
	struct stat st = { 0 };

	for (size_t i = 0; i < h->n_trees; i++) {
		if (h->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_MEMORY))
			CHECK_EQ(fstatat(h->trees[i].parent_fd, cg->name, &st, 0), 0);
	}
	return st.st_ino;
}

/* As its peak is set back where the kernel can do that; elsewhere the group is a new one. */
TEST(the_memory_of_the_one_before_does_not_count)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup_stats s;

	give(h, take(h, "box"));
	struct cgroup *cg = take(h, "box");
	ino_t first = memory_group_of(h, cg);
	CHECK_EQ(wait_for(start_in(cg, fill_memory)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.peak_bytes >= 8 * MIB); /* as USAGE_UNKNOWN is, too */
	give(h, cg);
	cg = take(h, "box");
	cgroup_read_stats(cg, &s);
	CHECK(s.peak_bytes < MIB || s.peak_bytes == USAGE_UNKNOWN);
	CHECK_EQ(wait_for(start_in(cg, do_nothing)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.peak_bytes < 4 * MIB || s.peak_bytes == USAGE_UNKNOWN);
	CHECK(memory_group_of(h, cg) == first || !cg->keeps_memory);
	give(h, cg);
}

static int shared_fd = -1;

/* Somebody else has them still when it is gone, and they stay charged to it. */
static void leave_pages(void)
{
	static const char block[4 << 20] = { 1 };

	if (write(shared_fd, block, sizeof(block)) != (ssize_t)sizeof(block))
		_exit(1);
}

TEST(a_group_that_pages_are_charged_to_is_not_kept)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup_stats s;

	give(h, take(h, "box"));
	struct cgroup *cg = take(h, "box");
	ino_t first = memory_group_of(h, cg);
	shared_fd = memfd_create("pages", MFD_CLOEXEC);
	CHECK(shared_fd >= 0);
	CHECK_EQ(wait_for(start_in(cg, leave_pages)), 0);
	give(h, cg);
	CHECK_EQ(cg->alive_fd, -1); /* it may be a file of what was removed */
	cg = take(h, "box");
	CHECK(memory_group_of(h, cg) != first && !cg->keeps_memory);
	cgroup_read_stats(cg, &s);
	CHECK(s.peak_bytes < MIB || s.peak_bytes == USAGE_UNKNOWN);
	give(h, cg);
	close_fdp(&shared_fd);
}

/* One whose group of memory is kept, too. */
static struct cgroup *take_kept_memory(struct cgroup_host *h)
{
	struct cgroup *cg = NULL;

	for (int i = 0; i < 3; i++) {
		cg = take(h, "box");
		if (i < 2)
			give(h, cg);
	}
	if (!cg->keeps_memory) {
		give(h, cg);
		cgroup_host_free(h);
		SKIP("the kernel can not set back a peak");
	}
	return cg;
}

TEST(an_alarm_is_not_for_who_comes_next)
{
	struct cgroup_host *h = open_divided_host();
	struct cgroup *cg = take_kept_memory(h);

	CHECK_EQ(eventfd_write(cgroup_event_fd(cg), 1), 0); /* as the kernel does */
	give(h, cg);
	cg = take(h, "box");
	CHECK(!cgroup_ack_event(cg));
	CHECK(!cg->keeps_memory);
	give(h, cg);

	cg = take_kept_memory(h);
	give(h, cg);
	CHECK(h->kept == cg);
	CHECK_EQ(eventfd_write(cgroup_event_fd(cg), 1), 0); /* while it waits */
	cg = take(h, "box");
	CHECK(cg->keeps_memory && !cgroup_ack_event(cg));
	give(h, cg);
	cgroup_host_free(h);
}

TEST(limits_of_the_one_before_do_not_stay)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct limits tight = { .memory_bytes = 16 * MIB, .cpu_milli = 10, .pids = 1 };
	struct cgroup_stats s;

	struct cgroup *cg = take(h, "box");
	CHECK_EQ(cgroup_set_limits(cg, &tight, NULL), 0);
	give(h, cg);
	cg = take(h, "other");
	CHECK_STR(cg->name, "box");
	uint64_t began = clock_monotonic_ns();
	CHECK_EQ(wait_for(start_in(cg, burn)), 0);
	CHECK(clock_monotonic_ns() - began < 1000000000); /* with the old limit, ten seconds */
	CHECK_EQ(wait_for(start_in(cg, fork_two)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.pids_max_hits == USAGE_UNKNOWN || s.pids_max_hits == 0);
	give(h, cg);
}

TEST(what_shows_that_it_was_used_is_not_kept)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup_stats s;

	struct cgroup *cg = take(h, "box");
	CHECK_EQ(wait_for(start_in(cg, fork_two)), 0);
	cgroup_read_stats(cg, &s);
	give(h, cg);
	if (s.pids_peak == USAGE_UNKNOWN)
		SKIP("the kernel does not say how many processes there were");
	CHECK_EQ(s.pids_peak, 3);
	CHECK_EQ(h->n_kept, 0);
}

static void wait_for_death(void)
{
	(void)pause();
}

TEST(what_was_killed_is_not_kept)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup *cg = take(h, "box");
	pid_t pid = start_in(cg, wait_for_death);

	while (cgroup_kill(cg) == -EAGAIN)
		pause_ms(1);
	CHECK(WIFSIGNALED(wait_for(pid)));
	give(h, cg);
	cg = take(h, "other");
	CHECK_EQ(wait_for(start_in(cg, do_nothing)), 0);
	CHECK_STR(cg->name, "other");
	give(h, cg);
}

TEST(one_that_is_in_use_is_not_given)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup *cg = take(h, "box");

	pid_t pid = start_in(cg, fork_two);
	pause_ms(10);
	CHECK_EQ(cgroup_give(h, cg), -EBUSY);
	CHECK_EQ(cgroup_set_limits(cg, &wide, NULL), 0); /* it is whole */
	CHECK_EQ(wait_for(pid), 0);
	give(h, cg);
}

TEST(nothing_is_left_of_those_kept)
{
	struct cgroup_host *h = open_divided_host();
	char name[CGROUP_NAME_MAX + 1];

	(void)snprintf(name, sizeof(name), "%s", h->name);
	struct cgroup *a = take(h, "a");
	struct cgroup *b = take(h, "b");
	give(h, a);
	give(h, b);
	CHECK_EQ(h->n_kept, 2);
	CHECK(has_group(name));
	cgroup_host_free(h);
	CHECK(!has_group(name));
}

TEST(files_stay_open_as_long_as_a_group_is_used_again)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	size_t n_before = scratch_count_fds();
	struct cgroup_stats s;

	give(h, take(h, "box"));
	size_t n_given = scratch_count_fds();
	CHECK_EQ(h->n_held, 1);
	for (int i = 0; i < 6; i++) {
		struct cgroup *cg = take(h, "other");

		CHECK_EQ(wait_for(start_in(cg, do_nothing)), 0);
		cgroup_close_join(cg);
		cgroup_read_stats(cg, &s);
		CHECK(scratch_count_fds() >= n_given);
		give(h, cg);
		if (i < 3)
			n_given = scratch_count_fds(); /* by then, all that are needed */
		CHECK(n_given <= n_before + HELD_FDS);
		CHECK_EQ(scratch_count_fds(), n_given);
	}
	cgroup_drop_kept(h);
	CHECK_EQ(h->n_held, 0);
	CHECK_EQ(scratch_count_fds(), n_before);
}

TEST(files_that_stayed_open_show_what_is_so_now)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct cgroup_stats s;

	give(h, take(h, "box"));
	struct cgroup *cg = take(h, "other");
	CHECK(cg->is_held);
	cgroup_read_stats(cg, &s);
	CHECK(s.cpu_us == 0 || s.cpu_us == USAGE_UNKNOWN);
	CHECK(s.pids_peak == 0 || s.pids_peak == USAGE_UNKNOWN);
	CHECK_EQ(wait_for(start_in(cg, burn)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.cpu_us > 30000); /* as USAGE_UNKNOWN is, too */
	CHECK(s.pids_peak == 1 || s.pids_peak == USAGE_UNKNOWN);
	CHECK_EQ(wait_for(start_in(cg, fork_two)), 0);
	cgroup_read_stats(cg, &s);
	CHECK(s.pids_peak == 3 || s.pids_peak == USAGE_UNKNOWN);
	give(h, cg);
	CHECK_EQ(h->n_kept, s.pids_peak == USAGE_UNKNOWN ? 1 : 0);
}

TEST(files_of_a_few_groups_only_stay_open)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	size_t n_before = scratch_count_fds();
	struct cgroup *groups[3] = { take(h, "a"), take(h, "b"), take(h, "c") };

	CHECK(h->held_max > 0);
	h->held_max = 2;
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		give(h, groups[i]);
	CHECK_EQ(h->n_kept, 3);
	CHECK_EQ(h->n_held, 2);
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		groups[i] = take(h, "other");
		CHECK_EQ(wait_for(start_in(groups[i], do_nothing)), 0);
		cgroup_close_join(groups[i]);
	}
	CHECK_EQ(h->n_held, 2);
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		give(h, groups[i]);
	CHECK(scratch_count_fds() <= n_before + 2 * HELD_FDS);
	cgroup_drop_kept(h);
	CHECK_EQ(h->n_held, 0);
	CHECK_EQ(scratch_count_fds(), n_before);
}

/* As where one hierarchy has memory and processes: its group is new, and without limits. */
TEST(limits_in_the_hierarchy_of_memory_are_set_again)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct err err = { 0 };
	struct cgroup *cg = take(h, "box");

	give(h, cg);
	for (size_t i = 0; i < h->n_trees; i++) {
		if (h->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_MEMORY)) {
			h->trees[i].controllers |= CONTROLLER_BIT(CONTROLLER_PIDS);
			h->trees[i].knobs = UINT32_MAX;
		}
	}
	CHECK_EQ(cgroup_take(h, "other", &cg, &err), 0);
	CHECK_EQ(cgroup_set_limits(cg, &wide, &err), -ENOENT);
	CHECK(strstr(err.text, "pids.max"));
	CHECK_EQ(cgroup_remove(cg), 0);
	cgroup_free(cg);
}

static struct cgroup_tree *find_memory(struct cgroup_host *h)
{
	size_t i = 0;

	while (!(h->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_MEMORY)))
		i++;
	return &h->trees[i];
}

TEST(one_that_can_not_be_removed_is_released)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	AUTO_FD no_dir = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t n_before = scratch_count_fds();
	struct cgroup_tree *memory = find_memory(h);
	int parent_fd = memory->parent_fd;
	struct cgroup *cg = take(h, "box");

	memory->parent_fd = no_dir;
	CHECK_EQ(cgroup_give(h, cg), -ENOTDIR);
	memory->parent_fd = parent_fd;
	CHECK_EQ(scratch_count_fds(), n_before);
	CHECK_EQ(h->n_kept, 0);
	CHECK_EQ(unlinkat(parent_fd, "box", AT_REMOVEDIR), 0);
}

/* The kernel shares it out by periods: who spends all of it and ends leaves none for a while. */
TEST(a_quota_that_was_used_is_set_again)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	struct limits half = { .memory_bytes = 256 * MIB, .cpu_milli = 500, .pids = 64 };
	struct cgroup *cg = take(h, "box");

	CHECK_EQ(cgroup_set_limits(cg, &half, NULL), 0);
	CHECK_EQ(wait_for(start_in(cg, do_nothing)), 0);
	give(h, cg);
	CHECK(cg == h->kept && cg->pids == half.pids);
	bool is_counted = cg->cpu_before_us > 0;
	CHECK_EQ(cg->cpu_milli, is_counted ? half.cpu_milli : 0);

	CHECK_EQ(cgroup_take(h, "box", &cg, NULL), 0);
	CHECK_EQ(cgroup_set_limits(cg, &half, NULL), 0);
	CHECK_EQ(wait_for(start_in(cg, burn)), 0);
	give(h, cg);
	CHECK(cg == h->kept);
	CHECK_EQ(cg->cpu_milli, 0);
}

static int make_tree(const char *path, const char *file, const char *text)
{
	char name[256];

	CHECK_EQ(mkdir(path, 0755), 0);
	(void)snprintf(name, sizeof(name), "%s/box", path);
	CHECK_EQ(mkdir(name, 0755), 0);
	(void)snprintf(name, sizeof(name), "%s/box/%s", path, file);
	scratch_write(AT_FDCWD, name, text);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Where memory and processor time are in one hierarchy, both are counted from zero. */
TEST(what_others_used_is_not_taken_from_what_is_new)
{
	SCRATCH(d);
	char kept[128];
	char renewed[128];

	(void)snprintf(kept, sizeof(kept), "%s/kept", d.path);
	(void)snprintf(renewed, sizeof(renewed), "%s/renewed", d.path);
	AUTO_FD kept_fd = make_tree(kept, "cpu.stat", "usage_usec 5000000\n");
	AUTO_FD renewed_fd = make_tree(renewed, "cpuacct.usage", "7000000\n");
	struct cgroup_host h = { .n_trees = 2,
		.trees = { { .ops = &cgroup_v2, .parent_fd = kept_fd },
			{ .ops = &cgroup_v1,
				.parent_fd = renewed_fd,
				.controllers = CONTROLLER_BIT(CONTROLLER_MEMORY) |
					       CONTROLLER_BIT(CONTROLLER_CPUACCT) } } };
	struct cgroup cg = { .host = &h, .name = "box", .cpu_before_us = 4000000 };
	struct cgroup_stats s;

	cgroup_read_stats(&cg, &s);
	CHECK_EQ(s.cpu_us, 7000);
	h.n_trees = 1;
	cgroup_read_stats(&cg, &s);
	CHECK_EQ(s.cpu_us, 1000000);
}

static struct cgroup *pretend_group(struct cgroup_host *h)
{
	struct cgroup *cg = xnew(struct cgroup);

	*cg = (struct cgroup){ .host = h, .name = "box", .is_held = true };
	h->n_held++;
	cg->clone_fd = cg->event_fd = cg->usage_fd = cg->reset_fd = cg->sockets_fd = -1;
	cg->alive_fd = -1;
	for (size_t i = 0; i < CGROUP_TREES_MAX; i++) {
		cg->join_fds[i] = -1;
		for (size_t k = 0; k < CGROUP_GAUGES_MAX; k++)
			cg->gauge_fds[i][k] = -1;
	}
	return cg;
}

/* Whether one is kept of which so much is in memory, and in swap as well if that is counted. */
static bool is_kept_with(const char *in_memory, const char *with_swap, const char *of_sockets)
{
	SCRATCH(d);
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/memory", d.path);
	AUTO_FD memory_fd = make_tree(path, "memory.usage_in_bytes", in_memory);
	scratch_write(memory_fd, "box/memory.oom_control", "oom_kill 0\n");
	scratch_write(memory_fd, "box/memory.max_usage_in_bytes", in_memory);
	if (with_swap)
		scratch_write(memory_fd, "box/memory.memsw.usage_in_bytes", with_swap);
	if (of_sockets)
		scratch_write(memory_fd, "box/memory.kmem.tcp.usage_in_bytes", of_sockets);
	(void)snprintf(path, sizeof(path), "%s/pids", d.path);
	AUTO_FD pids_fd = make_tree(path, "pids.current", "0\n");
	struct cgroup_host h = { .n_trees = 2,
		.trees = { { .ops = &cgroup_v1,
				   .parent_fd = memory_fd,
				   .controllers = CONTROLLER_BIT(CONTROLLER_MEMORY) },
			{ .ops = &cgroup_v1,
				.parent_fd = pids_fd,
				.controllers = CONTROLLER_BIT(CONTROLLER_PIDS) } } };

	(void)cgroup_give(&h, pretend_group(&h));
	bool is_kept = h.n_kept == 1;
	cgroup_drop_kept(&h);
	return is_kept;
}

TEST(what_was_swapped_out_is_charged_as_well)
{
	CHECK(is_kept_with("4096\n", NULL, NULL));
	CHECK(is_kept_with("4096\n", "8192\n", NULL));
	CHECK(!is_kept_with("4096\n", "4194304\n", NULL));
	CHECK(!is_kept_with("4194304\n", NULL, NULL));
}

TEST(what_sockets_have_queued_is_charged_as_well)
{
	CHECK(is_kept_with("4096\n", NULL, "8192\n"));
	CHECK(!is_kept_with("4096\n", NULL, "4194304\n"));
}

/* As somebody does who cleans up groups without processes. */
TEST(one_that_was_taken_away_is_not_used_again)
{
	CLEANUP(cgroup_host_freep) struct cgroup_host *h = open_divided_host();
	const struct cgroup_tree *other = &h->trees[find_memory(h) == &h->trees[0] ? 1 : 0];
	size_t n_before = scratch_count_fds();

	give(h, take(h, "box"));
	give(h, take(h, "again"));
	CHECK_EQ(h->n_kept, 1);
	CHECK_EQ(unlinkat(other->parent_fd, "box", AT_REMOVEDIR), 0);
	struct cgroup *cg = take(h, "new");
	CHECK_STR(cg->name, "new");
	CHECK_EQ(wait_for(start_in(cg, do_nothing)), 0);
	give(h, cg);
	cgroup_drop_kept(h);
	CHECK_EQ(scratch_count_fds(), n_before);
}

TESTS(UNIT(what_was_swapped_out_is_charged_as_well),
	UNIT(what_sockets_have_queued_is_charged_as_well), UNIT(an_alarm_is_not_for_who_comes_next),
	UNIT(the_memory_of_the_one_before_does_not_count),
	UNIT(a_group_that_pages_are_charged_to_is_not_kept),
	UNIT(one_that_was_taken_away_is_not_used_again),
	UNIT(what_others_used_is_not_taken_from_what_is_new),
	UNIT(a_quota_that_was_used_is_set_again), UNIT(one_that_can_not_be_removed_is_released),
	UNIT(limits_in_the_hierarchy_of_memory_are_set_again),
	UNIT(a_group_is_used_again_and_counts_anew), UNIT(limits_of_the_one_before_do_not_stay),
	UNIT(what_shows_that_it_was_used_is_not_kept), UNIT(what_was_killed_is_not_kept),
	UNIT(one_that_is_in_use_is_not_given), UNIT(nothing_is_left_of_those_kept),
	UNIT(files_stay_open_as_long_as_a_group_is_used_again),
	UNIT(files_that_stayed_open_show_what_is_so_now),
	UNIT(files_of_a_few_groups_only_stay_open))
