#include "image/tree.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "image/sample.h"
#include "lib/test.h"

static int add_text(struct tree *t, const char *path, const char *text)
{
	AUTO_FD fd = -1;

	int r = tree_add_file(t, path, &fd, NULL);
	if (r == 0)
		r = fd_write_full(fd, text, strlen(text));
	return r < 0 ? r : tree_seal_file(fd, 0600, NULL);
}

static bool exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(paths_are_cleaned)
{
	static const struct {
		const char *raw;
		const char *clean;
		int code;
	} cases[] = {
		{ "a/b", "a/b", 0 },
		{ "./a//b/./c/", "a/b/c", 0 },
		{ ".", "", 0 },
		{ "./", "", 0 },
		{ "...", "...", 0 },
		{ "a/..b", "a/..b", 0 },
		{ "", NULL, -EINVAL },
		{ "/", NULL, -EINVAL },
		{ "/a", NULL, -EINVAL },
		{ "..", NULL, -EINVAL },
		{ "a/..", NULL, -EINVAL },
		{ "a/../b", NULL, -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char clean[TREE_PATH_MAX];

		CHECK_EQ(tree_clean_path(cases[i].raw, clean, NULL), cases[i].code);
		if (cases[i].clean)
			CHECK_STR(clean, cases[i].clean);
	}
}

TEST(paths_are_limited)
{
	char raw[2 * TREE_PATH_MAX];
	char clean[TREE_PATH_MAX];

	memset(raw, 'a', sizeof(raw));
	raw[TREE_NAME_MAX] = '\0';
	CHECK_EQ(tree_clean_path(raw, clean, NULL), 0);
	raw[TREE_NAME_MAX] = 'a';
	raw[TREE_NAME_MAX + 1] = '\0';
	CHECK_EQ(tree_clean_path(raw, clean, NULL), -ENAMETOOLONG);
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = i % 128 == 127 ? '/' : 'a';
	raw[sizeof(raw) - 1] = '\0';
	CHECK_EQ(tree_clean_path(raw, clean, NULL), -ENAMETOOLONG);
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = i % 2 ? '/' : 'a';
	raw[2 * TREE_DEPTH_MAX] = '\0';
	CHECK_EQ(tree_clean_path(raw, clean, NULL), 0);
	raw[2 * TREE_DEPTH_MAX] = 'a';
	raw[2 * TREE_DEPTH_MAX + 1] = '\0';
	CHECK_EQ(tree_clean_path(raw, clean, NULL), -ENAMETOOLONG);
}

TEST(parents_are_made_and_links_followed_inside)
{
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	tree_init(&t, d.fd);
	CHECK_EQ(add_text(&t, "a/b/c", "1"), 0);
	CHECK_EQ(tree_add_symlink(&t, "abs", "/a/b", NULL), 0);
	CHECK_EQ(tree_add_symlink(&t, "up", "../../../a", NULL), 0);
	CHECK_EQ(add_text(&t, "abs/d", "2"), 0);
	CHECK_EQ(add_text(&t, "up/b/e", "3"), 0);
	CHECK_STR(sample_read(d.fd, "a/b/d"), "2");
	CHECK_STR(sample_read(d.fd, "a/b/e"), "3");
}

TEST(a_link_to_outside_means_a_place_inside)
{
	SAMPLE_DIR(away);
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;
	char inside[128];

	tree_init(&t, d.fd);
	CHECK_EQ(tree_add_symlink(&t, "x", away.path, NULL), 0);
	CHECK_EQ(add_text(&t, "x/evil", "1"), -EEXIST); /* a link to nothing, inside */
	CHECK_EQ(tree_add_dir(&t, away.path + 1, NULL), 0);
	CHECK_EQ(add_text(&t, "x/evil", "1"), 0);
	(void)snprintf(inside, sizeof(inside), "%s/evil", away.path + 1);
	CHECK(exists(d.fd, inside));
	CHECK(!exists(away.fd, "evil"));
}

TEST(the_last_word_is_replaced_and_never_followed)
{
	SAMPLE_DIR(away);
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;
	char target[128];

	sample_write(away.fd, "victim", "intact", 6);
	(void)snprintf(target, sizeof(target), "%s/victim", away.path);
	CHECK_EQ(symlinkat(target, d.fd, "x"), 0);
	tree_init(&t, d.fd);
	CHECK_EQ(add_text(&t, "x", "evil"), 0);
	CHECK_STR(sample_read(away.fd, "victim"), "intact");
	CHECK_STR(sample_read(d.fd, "x"), "evil");
	CHECK_EQ(symlinkat(away.path, d.fd, "y"), 0);
	CHECK_EQ(tree_add_dir(&t, "y", NULL), 0);
	CHECK_EQ(add_text(&t, "y/z", "1"), 0);
	CHECK(!exists(away.fd, "z"));
}

TEST(hard_links_need_a_file_inside)
{
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	tree_init(&t, d.fd);
	CHECK_EQ(add_text(&t, "a", "1"), 0);
	CHECK_EQ(tree_add_link(&t, "dir/b", "a", NULL), 0);
	CHECK_STR(sample_read(d.fd, "dir/b"), "1");
	CHECK_EQ(tree_add_link(&t, "a", "a", NULL), 0);
	CHECK_STR(sample_read(d.fd, "a"), "1");
	CHECK_EQ(tree_add_link(&t, "c", "absent", NULL), -ENOENT);
	CHECK_EQ(tree_add_link(&t, "c", "dir", NULL), -EINVAL);
	CHECK_EQ(tree_add_link(&t, "c", "", NULL), -ENOENT);
	CHECK_EQ(tree_add_symlink(&t, "etc", "/etc", NULL), 0);
	CHECK_EQ(tree_add_link(&t, "c", "etc/hostname", NULL), -ENOENT);
	CHECK(!exists(d.fd, "c"));
}

TEST(what_a_layer_made_it_does_not_hide)
{
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	tree_init(&t, d.fd);
	tree_begin_layer(&t);
	CHECK_EQ(add_text(&t, "d/old", "1"), 0);
	CHECK_EQ(add_text(&t, "d/sub/old", "1"), 0);
	CHECK_EQ(add_text(&t, "e", "1"), 0);
	tree_begin_layer(&t);
	CHECK_EQ(add_text(&t, "d/new", "2"), 0);
	CHECK_EQ(tree_add_link(&t, "d/linked", "e", NULL), 0);
	CHECK_EQ(tree_hide_below(&t, "d", NULL), 0);
	CHECK(exists(d.fd, "d/new") && exists(d.fd, "d/linked"));
	CHECK(!exists(d.fd, "d/old") && !exists(d.fd, "d/sub"));
	CHECK_EQ(tree_hide(&t, "d", NULL), 0);
	CHECK(exists(d.fd, "d/new"));
	tree_begin_layer(&t);
	CHECK_EQ(tree_hide(&t, "d", NULL), 0);
	CHECK(!exists(d.fd, "d"));
	CHECK_EQ(tree_hide(&t, "absent/x", NULL), 0);
	CHECK_EQ(tree_hide_below(&t, "", NULL), 0);
	CHECK(!exists(d.fd, "e"));
}

TEST(hiding_stays_inside)
{
	SAMPLE_DIR(away);
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	sample_write(away.fd, "victim", "intact", 6);
	CHECK_EQ(symlinkat(away.path, d.fd, "x"), 0);
	CHECK_EQ(symlinkat("..", d.fd, "up"), 0);
	tree_init(&t, d.fd);
	CHECK_EQ(tree_hide(&t, "x/victim", NULL), 0);
	CHECK_EQ(tree_hide_below(&t, "x", NULL), 0);
	CHECK_EQ(tree_hide_below(&t, "", NULL), 0);
	CHECK(!exists(d.fd, "x") && !exists(d.fd, "up"));
	CHECK_STR(sample_read(away.fd, "victim"), "intact");
}

TEST(modes_are_made_the_same_for_everybody)
{
	static const struct {
		mode_t from;
		mode_t to;
	} cases[] = {
		{ 0644, 0644 },
		{ 0600, 0644 },
		{ 0000, 0444 },
		{ 04755, 0755 },
		{ 0777, 0755 },
		{ 0100, 0555 },
		{ 0666, 0644 },
		{ 06711, 0755 },
	};
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	tree_init(&t, d.fd);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FD fd = -1;
		struct stat st;

		CHECK_EQ(tree_add_file(&t, "f", &fd, NULL), 0);
		CHECK_EQ(tree_seal_file(fd, cases[i].from, NULL), 0);
		CHECK_EQ(fstat(fd, &st), 0);
		CHECK_EQ(st.st_mode & 07777, cases[i].to);
	}
}

TEST(reading_stays_inside)
{
	SAMPLE_DIR(d);
	AUTO_FD fd = -1;

	sample_write(d.fd, "f", "x", 1);
	CHECK_EQ(symlinkat("f", d.fd, "good"), 0);
	CHECK_EQ(symlinkat("/etc/hostname", d.fd, "bad"), 0);
	CHECK_EQ(mkfifoat(d.fd, "fifo", 0644), 0);
	CHECK_EQ(tree_open_file(d.fd, "good", &fd, NULL), 0);
	close_fdp(&fd);
	CHECK_EQ(tree_open_file(d.fd, "bad", &fd, NULL), -EXDEV);
	CHECK_EQ(tree_open_file(d.fd, "fifo", &fd, NULL), -EINVAL);
	CHECK_EQ(tree_open_file(d.fd, ".", &fd, NULL), -EINVAL);
	CHECK_EQ(tree_open_file(d.fd, "absent", &fd, NULL), -ENOENT);
	CHECK_EQ(fd, -1);
}

TEST(many_names_of_one_layer_are_remembered)
{
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;
	char name[32];

	tree_init(&t, d.fd);
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "l%d", i);
		CHECK_EQ(tree_add_symlink(&t, name, "x", NULL), 0);
	}
	CHECK_EQ(tree_hide_below(&t, "", NULL), 0);
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "l%d", i);
		CHECK(exists(d.fd, name));
	}
}

TESTS(UNIT(paths_are_cleaned), UNIT(paths_are_limited),
	UNIT(parents_are_made_and_links_followed_inside),
	UNIT(a_link_to_outside_means_a_place_inside),
	UNIT(the_last_word_is_replaced_and_never_followed), UNIT(hard_links_need_a_file_inside),
	UNIT(what_a_layer_made_it_does_not_hide), UNIT(hiding_stays_inside),
	UNIT(modes_are_made_the_same_for_everybody), UNIT(reading_stays_inside),
	UNIT(many_names_of_one_layer_are_remembered))
