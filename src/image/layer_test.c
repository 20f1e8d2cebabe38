#include "image/layer.h"

#include <errno.h>

#include "base/err.h"
#include "image/budget.h"
#include "image/sample.h"
#include "image/tree.h"
#include "lib/test.h"

static const struct layer_digests any;

static int apply(struct tree *t, const struct sample_entry *entries,
	const struct layer_digests *digests, struct err *err)
{
	SAMPLE_DATA data = sample_tar(entries, false);
	AUTO_FD fd = sample_open(data.data, data.size);
	struct budget budget;

	budget_init(&budget, 1 << 20, t->root_fd);
	return layer_apply(t, fd, digests, &budget, err);
}

static bool exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(layers_lie_on_top_of_each_other)
{
	static const struct sample_entry lower[] = {
		{ "d", S_IFDIR | 0700, NULL },
		{ "d/a", S_IFREG | 04755, "a" },
		{ "d/b", S_IFREG | 0600, "b" },
		{ "l", S_IFLNK | 0777, "d" },
		{ 0 },
	};
	static const struct sample_entry upper[] = {
		{ "l/.wh.a", S_IFREG | 0644, "" },
		{ "l/c", S_IFREG | 0644, "c" },
		{ "h", S_IFREG | 0644, "d/b", .is_hard = true },
		{ 0 },
	};
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	tree_init(&t, d.fd);
	CHECK_EQ(apply(&t, lower, &any, NULL), 0);
	CHECK(exists(d.fd, "d/a"));
	CHECK_EQ(apply(&t, upper, &any, NULL), 0);
	CHECK(!exists(d.fd, "d/a"));
	CHECK_STR(sample_read(d.fd, "d/c"), "c");
	CHECK_STR(sample_read(d.fd, "h"), "b");
}

TEST(bad_entries_are_refused_by_name)
{
	static const struct {
		struct sample_entry entry;
		const char *says;
	} bad[] = {
		{ { "/x", S_IFREG | 0644, "" }, "entry '/x': the path is absolute" },
		{ { "a/../../x", S_IFREG | 0644, "" }, "entry 'a/../../x': the path holds '..'" },
		{ { "dev", S_IFCHR | 0644, NULL }, "entry 'dev': an image may not hold a char" },
		{ { "blk", S_IFBLK | 0644, NULL }, "entry 'blk': an image may not hold a block" },
		{ { "pipe", S_IFIFO | 0644, NULL }, "entry 'pipe': an image may not hold a named" },
		{ { "h", S_IFREG | 0644, "../x", .is_hard = true }, "leads out of the image" },
		{ { "h", S_IFREG | 0644, "/x", .is_hard = true }, "leads out of the image" },
		{ { "h", S_IFREG | 0644, "gone", .is_hard = true },
			"'gone', which does not exist" },
		{ { "d/.wh...", S_IFREG | 0644, "" }, "the whiteout names nothing" },
		{ { ".wh.", S_IFREG | 0644, "" }, "the whiteout names nothing" },
		{ { ".wh.x/y", S_IFREG | 0644, "" }, "inside of a whiteout" },
		{ { "big", S_IFREG | 0644, NULL, .size = 2 << 20 }, "entry 'big': the content" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct sample_entry entries[] = { bad[i].entry, { 0 } };
		SAMPLE_DIR(d);
		CLEANUP(tree_fini) struct tree t;
		struct err err = { 0 };

		tree_init(&t, d.fd);
		CHECK(apply(&t, entries, &any, &err) < 0);
		if (!strstr(err.text, bad[i].says))
			print_message("%s\n", err.text);
		CHECK(strstr(err.text, bad[i].says) != NULL);
		CHECK(!exists(d.fd, bad[i].entry.name));
	}
}

TEST(digests_are_compared)
{
	static const struct sample_entry entries[] = { { "a", S_IFREG | 0644, "a" }, { 0 } };
	SAMPLE_DATA data = sample_tar(entries, false);
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;
	struct layer_digests digests;
	struct err err = { 0 };

	tree_init(&t, d.fd);
	digest_of(data.data, data.size, digests.blob);
	memcpy(digests.plain, digests.blob, sizeof(digests.plain));
	CHECK_EQ(apply(&t, entries, &digests, NULL), 0);
	digests.plain[0] = digests.plain[0] == '0' ? '1' : '0';
	CHECK_EQ(apply(&t, entries, &digests, &err), -EBADMSG);
	CHECK(strstr(err.text, "the uncompressed layer is damaged"));
	digests.blob[0] = digests.plain[0];
	CHECK_EQ(apply(&t, entries, &digests, &err), -EBADMSG);
	CHECK(strstr(err.text, "the layer is damaged"));
}

TEST(a_plain_archive_has_no_whiteouts)
{
	static const struct sample_entry entries[] = {
		{ "a", S_IFREG | 0644, "a" },
		{ ".wh.a", S_IFREG | 0644, "b" },
		{ 0 },
	};
	SAMPLE_DATA data = sample_tar(entries, true);
	AUTO_FD fd = sample_open(data.data, data.size);
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;
	struct budget budget;

	tree_init(&t, d.fd);
	budget_init(&budget, 1 << 20, d.fd);
	CHECK_EQ(layer_unpack_plain(&t, fd, &budget, NULL), 0);
	CHECK(exists(d.fd, "a") && exists(d.fd, ".wh.a"));
}

TESTS(UNIT(layers_lie_on_top_of_each_other), UNIT(bad_entries_are_refused_by_name),
	UNIT(digests_are_compared), UNIT(a_plain_archive_has_no_whiteouts))
