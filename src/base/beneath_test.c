#include "base/beneath.h"

#include <errno.h>

#include "lib/scratch.h"
#include "lib/test.h"

static int try_open(const struct scratch *d, const char *path)
{
	AUTO_FD fd = beneath_open(d->fd, path);

	return fd < 0 ? fd : 0;
}

TEST(files_below_are_opened_and_links_are_not_followed)
{
	SCRATCH(d);

	CHECK_EQ(mkdirat(d.fd, "in", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, "in/deep", 0755), 0);
	scratch_write(d.fd, "secret", "s");
	scratch_write(d.fd, "in/deep/a", "a");
	CHECK_EQ(symlinkat("deep/a", d.fd, "in/link"), 0);
	CHECK_EQ(symlinkat("../secret", d.fd, "in/out"), 0);
	CHECK_EQ(symlinkat("/etc", d.fd, "in/etc"), 0);
	CHECK_EQ(symlinkat("deep", d.fd, "in/dir"), 0);
	CHECK_EQ(try_open(&d, "in/deep/a"), 0);
	CHECK_EQ(try_open(&d, "in/deep/b"), -ENOENT);
	CHECK_EQ(try_open(&d, "in/deep/a/b"), -ENOTDIR);
	CHECK_EQ(try_open(&d, "in/link"), -ELOOP);
	CHECK_EQ(try_open(&d, "in/out"), -ELOOP);
	CHECK_EQ(try_open(&d, "in/dir/a"), -ELOOP);
	CHECK_EQ(try_open(&d, "in/etc/passwd"), -ELOOP);
}

TEST(what_leads_out_is_refused)
{
	SCRATCH(d);

	scratch_write(d.fd, "secret", "s");
	CHECK_EQ(mkdirat(d.fd, "in", 0755), 0);
	AUTO_FD in = openat(d.fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(beneath_open(in, "../secret"), -EXDEV);
	CHECK_EQ(beneath_open(in, "/etc/passwd"), -EXDEV);
	/* A fifo that nobody writes into is no reason to wait. */
	CHECK_EQ(mkfifoat(in, "fifo", 0600), 0);
	AUTO_FD fifo = beneath_open(in, "fifo");
	CHECK(fifo >= 0);
}

TESTS(UNIT(files_below_are_opened_and_links_are_not_followed), UNIT(what_leads_out_is_refused))
