#include "http/body.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "lib/scratch.h"
#include "lib/test.h"

TEST(a_body_in_memory_grows_to_its_limit)
{
	CLEANUP(body_fini) struct body b;

	body_init(&b, BODY_MEMORY, 5000);
	CHECK_EQ(body_open(&b, NULL, NULL), 0);
	for (int i = 0; i < 500; i++)
		CHECK_EQ(body_add(&b, "0123456789", 10), 0);
	CHECK_EQ(b.size, 5000);
	CHECK_STR(b.data + 4990, "0123456789");
	CHECK_EQ(body_add(&b, "x", 1), -EFBIG);
	CHECK_EQ(body_add(&b, "", 0), 0);
	CHECK_EQ(b.size, 5000);
}

TEST(a_body_that_was_read_is_let_go_of)
{
	CLEANUP(body_fini) struct body b;

	body_init(&b, BODY_MEMORY, 100);
	CHECK_EQ(body_add(&b, "text", 4), 0);
	body_drop(&b);
	CHECK(b.data == NULL);
	CHECK_EQ(b.size, 0);
	body_drop(&b);
}

TEST(a_body_in_a_file_has_no_name)
{
	SCRATCH(dir);
	CLEANUP(body_fini) struct body b;
	struct stat st;
	char back[8] = "";

	body_init(&b, BODY_FILE, 5);
	CHECK_EQ(body_open(&b, dir.path, NULL), 0);
	CHECK_EQ(body_add(&b, "abc", 3), 0);
	CHECK_EQ(body_add(&b, "def", 3), -EFBIG);
	CHECK_EQ(body_add(&b, "de", 2), 0);
	CHECK_EQ(fstat(b.fd, &st), 0);
	CHECK_EQ(st.st_nlink, 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	CHECK_EQ(pread(b.fd, back, 5, 0), 5);
	CHECK_STR(back, "abcde");
}

TEST(a_body_that_is_dropped_is_counted)
{
	CLEANUP(body_fini) struct body b;

	body_init(&b, BODY_NONE, 4);
	CHECK_EQ(body_add(&b, "1234", 4), 0);
	CHECK_EQ(body_add(&b, "5", 1), -EFBIG);
	CHECK(!b.data);
}

TEST(without_a_directory_there_is_a_sentence)
{
	CLEANUP(body_fini) struct body b;
	struct err err = { 0 };

	body_init(&b, BODY_FILE, 4);
	CHECK_EQ(body_open(&b, NULL, &err), -EINVAL);
	CHECK_EQ(body_open(&b, "/nonexistent/dir", &err), -ENOENT);
	CHECK(strstr(err.text, "/nonexistent/dir"));
}

TESTS(UNIT(a_body_in_memory_grows_to_its_limit), UNIT(a_body_that_was_read_is_let_go_of),
	UNIT(a_body_in_a_file_has_no_name), UNIT(a_body_that_is_dropped_is_counted),
	UNIT(without_a_directory_there_is_a_sentence))
