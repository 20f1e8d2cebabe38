#include "box/list.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"

static const struct inventory_entry *find(const struct inventory *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++) {
		if (streq(l->at[i].path, path))
			return &l->at[i];
	}
	return NULL;
}

TEST(every_kind_is_named_and_no_link_is_followed)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };

	CHECK_EQ(mkdirat(d.fd, "dir", 0755), 0);
	scratch_write(d.fd, "dir/file", "12345");
	CHECK_EQ(symlinkat("/etc", d.fd, "out"), 0);
	CHECK_EQ(mkfifoat(d.fd, "fifo", 0600), 0);
	CHECK_EQ(mkdirat(d.fd, ".incoming-0123456789abcdef", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, ".outgoing-0123456789abcdef", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, ".arriving-0123456789abcdef", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, ".incoming-mine", 0755), 0);
	list_tree(d.fd, NULL, &l);
	CHECK_EQ(l.n, 5);
	CHECK(!l.is_cut);
	CHECK_STR(l.at[0].path, ".incoming-mine");
	CHECK_STR(l.at[1].path, "dir");
	CHECK_EQ(l.at[1].kind, INVENTORY_DIR);
	CHECK_STR(l.at[2].path, "dir/file");
	CHECK_EQ(l.at[2].kind, INVENTORY_FILE);
	CHECK_EQ(l.at[2].size, 5);
	CHECK(clock_realtime_ns() - l.at[2].mtime_ns < UINT64_C(60000000000));
	CHECK(!l.at[2].is_changed);
	CHECK_EQ(find(&l, "fifo")->kind, INVENTORY_OTHER);
	CHECK_EQ(find(&l, "out")->kind, INVENTORY_LINK);
}

TEST(any_name_is_named)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	char longest[256];

	memset(longest, 'n', 255);
	longest[255] = '\0';
	scratch_write(d.fd, longest, "");
	scratch_write(d.fd, "\xff\xfe", "");
	scratch_write(d.fd, "new\nline", "");
	list_tree(d.fd, NULL, &l);
	CHECK_EQ(l.n, 3);
	CHECK(find(&l, longest) && find(&l, "\xff\xfe") && find(&l, "new\nline"));
}

/* Also what was made within the same tick of the clock. */
TEST(what_was_changed_since_a_mark_is_told_from_the_rest)
{
	static struct list_mark mark;
	SCRATCH(d);

	for (int i = 0; i < 50; i++) {
		CLEANUP(inventory_fini) struct inventory l = { 0 };
		char old[16], new[16];

		(void)snprintf(old, sizeof(old), "old%d", i);
		(void)snprintf(new, sizeof(new), "new%d", i);
		scratch_write(d.fd, old, "1");
		list_mark(&mark, d.fd);
		scratch_write(d.fd, new, "1");
		list_tree(d.fd, &mark, &l);
		CHECK(!find(&l, old)->is_changed);
		CHECK(find(&l, new)->is_changed);
		CHECK(i == 0 || !find(&l, "new0")->is_changed);
	}
}

TEST(a_time_that_was_set_back_hides_no_change)
{
	static struct list_mark mark;
	static const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };

	list_mark(&mark, d.fd);
	scratch_write(d.fd, "new", "1");
	CHECK_EQ(utimensat(d.fd, "new", long_ago, 0), 0);
	list_tree(d.fd, &mark, &l);
	CHECK(l.at[0].is_changed);
	CHECK_EQ(l.at[0].mtime_ns, UINT64_C(1000000000));
}

/* What is near the top is there, whatever lies deeper. */
TEST(a_huge_tree_is_cut_from_its_leaves)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	char name[32];

	CHECK_EQ(mkdirat(d.fd, "a", 0755), 0);
	for (unsigned i = 0; i < INVENTORY_ENTRIES_MAX + 500; i++) {
		(void)snprintf(name, sizeof(name), "a/%u", i);
		scratch_write(d.fd, name, "");
	}
	scratch_write(d.fd, "z", "");
	list_tree(d.fd, NULL, &l);
	CHECK(l.n <= INVENTORY_ENTRIES_MAX); /* less on a machine that is busy */
	CHECK(l.is_cut);
	CHECK(find(&l, "z") != NULL);
}

/* On a machine that is busy time may be over before. */
TEST(of_too_many_those_that_changed_are_there_and_the_others_are_counted)
{
	static struct list_mark mark;
	static struct timespec a_tick = { .tv_nsec = 20000000 };
	const unsigned n = INVENTORY_ENTRIES_MAX + 600;
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	char name[32];

	CHECK_EQ(mkdirat(d.fd, "a", 0755), 0);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "a/%u", i);
		scratch_write(d.fd, name, "");
	}
	CHECK_EQ(nanosleep(&a_tick, NULL), 0);
	list_mark(&mark, d.fd);
	scratch_write(d.fd, "a/0", "1");
	scratch_write(d.fd, "a/1300", "1");
	scratch_write(d.fd, "a/2599", "1");
	list_tree(d.fd, &mark, &l);
	CHECK(l.is_cut);
	if (l.is_partial)
		return;
	CHECK_EQ(l.n, INVENTORY_ENTRIES_MAX);
	CHECK(find(&l, "a/0") && find(&l, "a/0")->is_changed);
	CHECK(find(&l, "a/1300") && find(&l, "a/1300")->is_changed);
	CHECK(find(&l, "a/2599") && find(&l, "a/2599")->is_changed);
	size_t n_listed = l.n - (find(&l, "a") != NULL);
	CHECK_EQ(n_listed + l.n_more, n);
}

TEST(a_deep_tree_is_cut)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	AUTO_FD at = fcntl(d.fd, F_DUPFD_CLOEXEC, 3);

	for (int i = 0; i < 100; i++) {
		CHECK_EQ(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close_fdp(&at);
		at = next;
	}
	list_tree(d.fd, NULL, &l);
	CHECK_EQ(l.n, LIST_DEPTH_MAX);
	CHECK(l.is_cut);
}

/* Sixty directories of names that are as long as can be: more bytes than entries allow. */
TEST(many_long_names_are_cut)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	char name[256];

	for (unsigned i = 0; i < INVENTORY_BYTES_MAX / 255 + 10; i++) {
		(void)snprintf(name, sizeof(name), "%0255u", i);
		scratch_write(d.fd, name, "");
	}
	list_tree(d.fd, NULL, &l);
	CHECK(l.is_cut);
	CHECK(l.n <= INVENTORY_BYTES_MAX / 255);
}

TEST(a_directory_that_can_not_be_opened_is_said)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	uid_t before = geteuid();

	CHECK_EQ(mkdirat(d.fd, "shut", 0000), 0);
	CHECK_EQ(seteuid(before == 0 ? 65534 : before), 0); /* root opens every directory */
	list_tree(d.fd, NULL, &l);
	CHECK_EQ(seteuid(before), 0);
	CHECK_EQ(l.n, 1);
	CHECK(l.is_cut);
}

TESTS(UNIT(every_kind_is_named_and_no_link_is_followed), UNIT(any_name_is_named),
	UNIT(what_was_changed_since_a_mark_is_told_from_the_rest),
	UNIT(a_time_that_was_set_back_hides_no_change), UNIT(a_huge_tree_is_cut_from_its_leaves),
	UNIT(of_too_many_those_that_changed_are_there_and_the_others_are_counted),
	UNIT(a_deep_tree_is_cut), UNIT(many_long_names_are_cut),
	UNIT(a_directory_that_can_not_be_opened_is_said))
