#include "core/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store/record.h"

static struct journal *open_in(const struct scratch *dir)
{
	AUTO_FD dir_fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct journal *j = NULL;
	struct err err = { 0 };

	(void)mkdirat(dir_fd, "meta", 0700);
	CHECK_EQ(journal_open(dir_fd, &j, &err), 0);
	return j;
}

static struct run_row row_called(const char *id)
{
	return (struct run_row){
		.id = (char *)id,
		.user_id = (char *)"alice",
		.phase = (char *)"completed",
		.message = (char *)"",
		.exit_code = 3,
		.signal = STORE_NULL,
		.created_ns = 1700000000123456789,
	};
}

static int add(struct journal *j, const char *id)
{
	struct run_row row = row_called(id);

	return journal_add(j, &row);
}

static int next_is(struct journal *j, int from, const char *id)
{
	struct run_row row = { 0 };
	int place = journal_next(j, from, &row);

	if (place >= 0)
		CHECK_STR(row.id, id);
	row_fini(&run_table, &row);
	return place;
}

/* Whether these words are anywhere in the file. */
static bool file_has(const struct scratch *dir, const char *words)
{
	char path[256];
	static char data[JOURNAL_PLACES * JOURNAL_PLACE_SIZE];

	(void)snprintf(path, sizeof(path), "%s/meta/journal", dir->path);
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, data, sizeof(data));
	CHECK(n >= 0);
	return n > 0 && memmem(data, (size_t)n, words, strlen(words));
}

TEST(a_row_comes_back_as_it_was)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);
	struct run_row row = { 0 };

	CHECK_EQ(journal_next(j, 0, &row), -ENOENT);
	CHECK_EQ(add(j, "one"), 0);
	CHECK_EQ(journal_next(j, 0, &row), 0);
	CHECK_STR(row.id, "one");
	CHECK_STR(row.user_id, "alice");
	CHECK_STR(row.message, "");
	CHECK(row.session_id == NULL && row.frames == NULL);
	CHECK_EQ(row.exit_code, 3);
	CHECK_EQ(row.signal, STORE_NULL);
	CHECK_EQ(row.created_ns, 1700000000123456789);
	row_fini(&run_table, &row);
}

TEST(the_next_server_finds_what_is_left)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);

	for (int i = 0; i < 3; i++) {
		char id[2] = { (char)('a' + i), '\0' };
		CHECK_EQ(add(j, id), i);
	}
	journal_remove(j, 1);
	journal_free(j);
	j = open_in(&dir);
	CHECK_EQ(next_is(j, 0, "a"), 0);
	CHECK_EQ(next_is(j, 1, "c"), 2);
	CHECK_EQ(next_is(j, 3, ""), -ENOENT);
	CHECK_EQ(add(j, "b"), 1); /* where there is room */
}

TEST(nothing_stays_of_what_is_removed)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);
	int place = add(j, "a-name-that-is-seen");

	CHECK(file_has(&dir, "a-name-that-is-seen"));
	journal_remove(j, place);
	CHECK(!file_has(&dir, "a-name-that-is-seen") && !file_has(&dir, "alice"));
	journal_remove(j, place);
	journal_remove(j, -1);
}

TEST(who_finds_no_place_is_told)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);

	for (int i = 0; i < JOURNAL_PLACES; i++)
		CHECK_EQ(add(j, "x"), i);
	CHECK_EQ(add(j, "x"), -ENOSPC);
	journal_remove(j, 17);
	CHECK_EQ(add(j, "y"), 17);
}

TEST(what_is_too_large_is_refused_and_leaves_nothing)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);
	struct run_row row = row_called("large");
	char labels[JOURNAL_PLACE_SIZE];

	memset(labels, 'x', sizeof(labels) - 1);
	labels[sizeof(labels) - 1] = '\0';
	row.labels = labels;
	CHECK_EQ(journal_add(j, &row), -E2BIG);
	CHECK_EQ(next_is(j, 0, ""), -ENOENT);
	CHECK(!file_has(&dir, "large"));
}

/* Whichever byte of it was lost with the power. */
TEST(what_is_half_there_is_left_out)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/meta/journal", dir.path);
	AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);
	for (off_t at = 0; at < 60; at++) {
		uint8_t byte;

		if (at >= 8 && at < 16)
			continue; /* which columns it has, see below */

		CHECK_EQ(add(j, "damaged"), 0);
		CHECK_EQ(pread(fd, &byte, 1, at), 1);
		byte ^= 0x40;
		CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
		CHECK_EQ(next_is(j, 0, ""), -ENOENT);
	}
	CHECK_EQ(add(j, "whole"), 0);
	CHECK_EQ(next_is(j, 0, "whole"), 0);
}

/* It is of another version of the program, and may be for that one again. */
TEST(a_row_with_other_columns_stays)
{
	SCRATCH(dir);
	CLEANUP(journal_freep) struct journal *j = open_in(&dir);
	char path[256];
	const uint8_t byte = 0x5a;

	(void)snprintf(path, sizeof(path), "%s/meta/journal", dir.path);
	AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_EQ(add(j, "foreign"), 0);
	CHECK_EQ(pwrite(fd, &byte, 1, 9), 1);
	CHECK_EQ(next_is(j, 0, ""), -ENOENT);
	CHECK(file_has(&dir, "foreign"));
	CHECK_EQ(add(j, "ours"), 1);
	CHECK_EQ(next_is(j, 0, "ours"), 1);
}

TESTS(UNIT(a_row_with_other_columns_stays), UNIT(a_row_comes_back_as_it_was),
	UNIT(the_next_server_finds_what_is_left), UNIT(nothing_stays_of_what_is_removed),
	UNIT(who_finds_no_place_is_told), UNIT(what_is_too_large_is_refused_and_leaves_nothing),
	UNIT(what_is_half_there_is_left_out))
