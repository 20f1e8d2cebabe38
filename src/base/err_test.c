#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

TEST(set_records_and_returns_the_code)
{
	struct err err = { 0 };

	CHECK_EQ(err_set(&err, -EINVAL, "limit %s: %d", "pids", 7), -EINVAL);
	CHECK_EQ(err.code, -EINVAL);
	CHECK_STR(err.text, "limit pids: 7");
}

TEST(nobody_need_listen)
{
	errno = ENOENT;
	CHECK_EQ(err_errno(NULL, "open %s", "x"), -ENOENT);
	CHECK_EQ(err_set(NULL, -EIO, "x"), -EIO);
	CHECK_EQ(err_wrap(NULL, -EIO, "x"), -EIO);
}

TEST(errno_becomes_the_code_and_its_description)
{
	struct err err = { 0 };

	errno = ENOENT;
	CHECK_EQ(err_errno(&err, "open %s", "/x"), -ENOENT);
	CHECK_EQ(err.code, -ENOENT);
	CHECK_STR(err.text, "open /x: No such file or directory");
}

TEST(a_failure_without_errno_is_still_a_failure)
{
	struct err err = { 0 };

	errno = 0;
	CHECK_EQ(err_errno(&err, "x"), -EIO);
	CHECK_STR(err.text, "x: Input/output error");
}

TEST(wrapping_puts_words_before_what_is_there)
{
	struct err err = { 0 };

	(void)err_set(&err, -EPERM, "mount /proc");
	CHECK_EQ(err_wrap(&err, -EACCES, "root"), -EACCES);
	CHECK_EQ(err.code, -EACCES);
	CHECK_STR(err.text, "root: mount /proc");
}

TEST(long_sentences_are_cut_and_end)
{
	struct err err = { 0 };
	char much[2 * sizeof(err.text)];

	memset(much, 'a', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	(void)err_set(&err, -EINVAL, "%s", much);
	CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
	errno = ENOENT;
	(void)err_errno(&err, "%s", much);
	CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
	(void)err_wrap(&err, -EINVAL, "root");
	CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
	CHECK_EQ(strncmp(err.text, "root: aaa", 9), 0);
	(void)err_wrap(&err, -EINVAL, much);
	CHECK_EQ(strlen(err.text), sizeof(err.text) - 1);
}

TESTS(UNIT(set_records_and_returns_the_code), UNIT(nobody_need_listen),
	UNIT(errno_becomes_the_code_and_its_description),
	UNIT(a_failure_without_errno_is_still_a_failure),
	UNIT(wrapping_puts_words_before_what_is_there), UNIT(long_sentences_are_cut_and_end))
