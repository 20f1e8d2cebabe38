#include "box/digests.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/str.h"
#include "box/list.h"
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

static bool has_digest_of(const struct inventory_entry *e, const char *text)
{
	char expected[DIGEST_HEX_SIZE + 1], got[DIGEST_HEX_SIZE + 1];

	digest_of(text, strlen(text), expected);
	str_hex(e->sha256, SHA256_SIZE, got);
	return e->has_sha256 && streq(got, expected);
}

static void write_size(int dir_fd, const char *name, off_t size)
{
	AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, size), 0);
}

TEST(files_have_the_digest_of_their_content_and_nothing_else_has_one)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };

	CHECK_EQ(mkdirat(d.fd, "dir", 0755), 0);
	scratch_write(d.fd, "dir/file", "12345");
	scratch_write(d.fd, "empty", "");
	CHECK_EQ(symlinkat("empty", d.fd, "link"), 0);
	CHECK_EQ(mkfifoat(d.fd, "fifo", 0600), 0);
	list_tree(d.fd, NULL, &l);
	digests_fill(d.fd, &l);
	CHECK(has_digest_of(find(&l, "dir/file"), "12345"));
	CHECK(has_digest_of(find(&l, "empty"), ""));
	CHECK(!find(&l, "dir")->has_sha256);
	CHECK(!find(&l, "link")->has_sha256);
	CHECK(!find(&l, "fifo")->has_sha256);
}

/* Also not when it became a link to a file with that content, or to one out of reach. */
TEST(what_is_not_as_it_was_listed_has_none)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };

	scratch_write(d.fd, "grew", "1");
	scratch_write(d.fd, "shrank", "12");
	scratch_write(d.fd, "gone", "1");
	scratch_write(d.fd, "linked", "root");
	scratch_write(d.fd, "same", "root");
	list_tree(d.fd, NULL, &l);
	scratch_write(d.fd, "grew", "12");
	scratch_write(d.fd, "shrank", "1");
	CHECK_EQ(unlinkat(d.fd, "gone", 0), 0);
	CHECK_EQ(unlinkat(d.fd, "linked", 0), 0);
	CHECK_EQ(symlinkat("same", d.fd, "linked"), 0);
	digests_fill(d.fd, &l);
	for (size_t i = 0; i < l.n; i++)
		CHECK_EQ(l.at[i].has_sha256, streq(l.at[i].path, "same"));
}

TEST(no_more_than_the_limits_is_read)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	uint64_t n_bytes = 0;

	write_size(d.fd, "large", DIGESTS_FILE_MAX + 1);
	for (char name[] = "a"; name[0] <= 'h'; name[0]++)
		write_size(d.fd, name, DIGESTS_FILE_MAX);
	list_tree(d.fd, NULL, &l);
	digests_fill(d.fd, &l);
	CHECK_EQ(l.n, 9);
	CHECK(!find(&l, "large")->has_sha256);
	for (size_t i = 0; i < l.n; i++)
		n_bytes += l.at[i].has_sha256 ? l.at[i].size : 0;
	CHECK(n_bytes <= DIGESTS_TOTAL_MAX);
}

TEST(what_was_changed_last_comes_first)
{
	SCRATCH(d);
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	struct inventory_entry e = { .kind = INVENTORY_FILE, .size = DIGESTS_FILE_MAX };

	for (char name[] = "a"; name[0] <= 'e'; name[0]++) {
		write_size(d.fd, name, DIGESTS_FILE_MAX);
		e.path = name;
		e.mtime_ns = (uint64_t)name[0];
		CHECK_EQ(inventory_add(&l, &e), 0);
	}
	digests_fill(d.fd, &l);
	CHECK(!find(&l, "a")->has_sha256);
	CHECK(find(&l, "e")->has_sha256);
}

TESTS(UNIT(files_have_the_digest_of_their_content_and_nothing_else_has_one),
	UNIT(what_is_not_as_it_was_listed_has_none), UNIT(no_more_than_the_limits_is_read),
	UNIT(what_was_changed_last_comes_first))
