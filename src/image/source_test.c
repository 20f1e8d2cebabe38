#include "image/source.h"

#include <errno.h>

#include "base/err.h"
#include "image/sample.h"
#include "lib/test.h"

static const struct sample_entry entries[] = { { "dir/a", S_IFREG | 0644, "content" }, { 0 } };

TEST(a_directory_is_used_as_it_is)
{
	SAMPLE_DIR(d);
	SAMPLE_DIR(work);
	AUTO_FD fd = -1;
	struct stat a;
	struct stat b;

	CHECK_EQ(source_open(d.path, work.fd, 1 << 20, &fd, NULL), 0);
	CHECK_EQ(fstat(fd, &a), 0);
	CHECK_EQ(fstat(d.fd, &b), 0);
	CHECK_EQ(a.st_ino, b.st_ino);
	CHECK_EQ(unlinkat(work.fd, "source", AT_REMOVEDIR), -1);
}

TEST(an_archive_is_unpacked)
{
	SAMPLE_DIR(d);
	SAMPLE_DIR(work);
	SAMPLE_DATA data = sample_tar(entries, true);
	AUTO_FD fd = -1;
	char path[96];

	sample_write(d.fd, "a.tar.gz", data.data, data.size);
	(void)snprintf(path, sizeof(path), "%s/a.tar.gz", d.path);
	CHECK_EQ(source_open(path, work.fd, 1 << 20, &fd, NULL), 0);
	CHECK_STR(sample_read(fd, "dir/a"), "content");
	CHECK_STR(sample_read(work.fd, "source/dir/a"), "content");
}

TEST(other_things_are_refused)
{
	SAMPLE_DIR(work);
	AUTO_FD fd = -1;

	CHECK_EQ(source_open("/nowhere/at/all", work.fd, 1 << 20, &fd, NULL), -ENOENT);
	CHECK_EQ(source_open("/dev/zero", work.fd, 1 << 20, &fd, NULL), -EINVAL);
	CHECK_EQ(fd, -1);
}

TESTS(UNIT(a_directory_is_used_as_it_is), UNIT(an_archive_is_unpacked),
	UNIT(other_things_are_refused))
