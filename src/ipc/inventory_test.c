#include "ipc/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "lib/test.h"

static int add(struct inventory *l, enum inventory_kind kind, const char *path)
{
	struct inventory_entry e = { .kind = kind, .is_changed = true, .size = 7, .mtime_ns = 9 };

	e.path = (char *)path;
	return inventory_add(l, &e);
}

static int read_back(struct put *p, struct inventory *ret)
{
	struct cur c;

	CHECK_EQ(put_end(p), 0);
	cur_init(&c, p->data, p->size);
	return inventory_get(ret, &c);
}

TEST(what_was_put_is_read)
{
	CLEANUP(inventory_fini) struct inventory l = { .is_cut = true };
	CLEANUP(inventory_fini) struct inventory got = { 0 };
	CLEANUP(put_fini) struct put p;

	CHECK_EQ(add(&l, INVENTORY_FILE, "b/c"), 0);
	CHECK_EQ(add(&l, INVENTORY_DIR, "b"), 0);
	CHECK_EQ(add(&l, INVENTORY_LINK, "\xff\x01"), 0);
	l.at[0].has_sha256 = true;
	memset(l.at[0].sha256, 0xab, SHA256_SIZE);
	inventory_sort(&l);
	put_init(&p, INVENTORY_SIZE_MAX);
	inventory_put(&l, &p);
	CHECK_EQ(read_back(&p, &got), 0);
	CHECK_EQ(got.n, 3);
	CHECK(got.is_cut && !got.is_partial);
	CHECK_EQ(got.n_more, 0);
	CHECK_STR(got.at[0].path, "b");
	CHECK_EQ(got.at[0].kind, INVENTORY_DIR);
	CHECK_STR(got.at[1].path, "b/c");
	CHECK(!got.at[0].has_sha256 && got.at[1].has_sha256);
	CHECK(memcmp(got.at[1].sha256, l.at[1].sha256, SHA256_SIZE) == 0);
	CHECK_EQ(got.at[1].size, 7);
	CHECK_EQ(got.at[1].mtime_ns, 9);
	CHECK(got.at[1].is_changed);
	CHECK_STR(got.at[2].path, "\xff\x01");
}

TEST(what_is_no_file_has_no_digest)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	struct inventory got = { 0 };
	CLEANUP(put_fini) struct put p;

	CHECK_EQ(add(&l, INVENTORY_DIR, "d"), 0);
	l.at[0].has_sha256 = true;
	put_init(&p, INVENTORY_SIZE_MAX);
	inventory_put(&l, &p);
	CHECK_EQ(read_back(&p, &got), -EBADMSG);
}

TEST(an_empty_one_is_one)
{
	struct inventory l = { 0 };
	struct inventory got = { 0 };
	CLEANUP(put_fini) struct put p;

	put_init(&p, 64);
	inventory_put(&l, &p);
	CHECK_EQ(read_back(&p, &got), 0);
	CHECK_EQ(got.n, 0);
	CHECK(!got.is_cut);
}

static void check_rest(struct inventory l)
{
	struct inventory got = { 0 };
	CLEANUP(put_fini) struct put p;

	put_init(&p, 64);
	inventory_put(&l, &p);
	CHECK_EQ(read_back(&p, &got), 0);
	CHECK_EQ(got.is_cut, l.is_cut);
	CHECK_EQ(got.is_partial, l.is_partial);
	CHECK_EQ(got.n_more, l.n_more);
}

TEST(what_is_known_of_the_rest_is_read)
{
	check_rest((struct inventory){ .is_cut = true });
	check_rest((struct inventory){ .is_cut = true, .is_partial = true });
	check_rest((struct inventory){ .is_cut = true, .n_more = 7 });
	check_rest((struct inventory){ .is_cut = true, .is_partial = true, .n_more = UINT32_MAX });
}

TEST(what_is_dropped_is_counted_if_it_is_a_file_of_somebody)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };

	CHECK_EQ(add(&l, INVENTORY_FILE, "a"), 0);
	CHECK_EQ(add(&l, INVENTORY_DIR, "b"), 0);
	CHECK_EQ(add(&l, INVENTORY_FILE, ".cache/c"), 0);
	CHECK_EQ(add(&l, INVENTORY_FILE, "dd"), 0);
	inventory_drop(&l, 0);
	CHECK_STR(l.at[0].path, "dd");
	CHECK_EQ(l.n, 3);
	CHECK_EQ(l.n_bytes, 11);
	CHECK(l.is_cut);
	while (l.n > 0)
		inventory_drop(&l, 0);
	CHECK_EQ(l.n_more, 2);
	CHECK_EQ(l.n_bytes, 0);
}

TEST(more_entries_than_the_limit_are_cut)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	char path[16];

	for (unsigned i = 0; i < INVENTORY_ENTRIES_MAX; i++) {
		(void)snprintf(path, sizeof(path), "%u", i);
		CHECK_EQ(add(&l, INVENTORY_FILE, path), 0);
	}
	CHECK(!l.is_cut);
	CHECK_EQ(add(&l, INVENTORY_FILE, "more"), -E2BIG);
	CHECK(l.is_cut && !l.is_partial);
	CHECK_EQ(l.n, INVENTORY_ENTRIES_MAX);
	CHECK_EQ(l.n_more, 1);
}

/* 255 bytes a name, as long as a path may be. */
static void make_long(char path[PACK_NAME_MAX + 1])
{
	memset(path, 'x', PACK_NAME_MAX);
	for (size_t i = 255; i < PACK_NAME_MAX; i += 256)
		path[i] = '/';
	path[PACK_NAME_MAX] = '\0';
}

TEST(more_bytes_than_the_limit_are_cut_and_the_longest_fits_a_message)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	CLEANUP(inventory_fini) struct inventory got = { 0 };
	CLEANUP(put_fini) struct put p;
	char path[PACK_NAME_MAX + 1];

	make_long(path);
	while (add(&l, INVENTORY_FILE, path) == 0)
		;
	CHECK_EQ(l.n, INVENTORY_BYTES_MAX / PACK_NAME_MAX);
	CHECK(l.is_cut);
	while (l.n_bytes < INVENTORY_BYTES_MAX)
		CHECK_EQ(add(&l, INVENTORY_FILE, "y"), 0);
	put_init(&p, INVENTORY_SIZE_MAX);
	inventory_put(&l, &p);
	CHECK_EQ(read_back(&p, &got), 0);
	CHECK_EQ(got.n_bytes, INVENTORY_BYTES_MAX);
}

static void put_entry(struct put *p, uint8_t kind, uint8_t changed, const char *path)
{
	put_u8(p, kind);
	put_u8(p, changed);
	put_u64(p, 0);
	put_u64(p, 0);
	put_str(p, path);
}

static void put_end_mark(struct put *p, uint8_t cut, uint32_t n)
{
	put_u8(p, 'E');
	put_u8(p, cut);
	put_u32(p, n);
}

static void a_path_that_climbs(struct put *p)
{
	put_entry(p, 'F', 0, "../secret");
	put_end_mark(p, 0, 1);
}

static void an_absolute_path(struct put *p)
{
	put_entry(p, 'F', 0, "/etc/passwd");
	put_end_mark(p, 0, 1);
}

static void an_unknown_kind(struct put *p)
{
	put_entry(p, 'X', 0, "a");
	put_end_mark(p, 0, 1);
}

static void half_a_truth(struct put *p)
{
	put_entry(p, 'F', 2, "a");
	put_end_mark(p, 0, 1);
}

static void a_wrong_number(struct put *p)
{
	put_entry(p, 'F', 0, "a");
	put_end_mark(p, 0, 2);
}

static void no_end(struct put *p)
{
	put_entry(p, 'F', 0, "a");
}

static void something_behind(struct put *p)
{
	put_end_mark(p, 0, 0);
	put_u8(p, 0);
}

static void put_more(struct put *p, uint32_t n, uint8_t partial)
{
	put_u8(p, 'M');
	put_u32(p, n);
	put_u8(p, partial);
}

static void more_of_a_whole_one(struct put *p)
{
	put_more(p, 1, 0);
	put_end_mark(p, 0, 0);
}

static void more_that_says_nothing(struct put *p)
{
	put_more(p, 0, 1);
	put_end_mark(p, 1, 0);
}

static void more_twice(struct put *p)
{
	put_more(p, 1, 0);
	put_more(p, 1, 0);
	put_end_mark(p, 1, 0);
}

static void too_many(struct put *p)
{
	for (unsigned i = 0; i <= INVENTORY_ENTRIES_MAX; i++)
		put_entry(p, 'F', 0, "a");
	put_end_mark(p, 0, INVENTORY_ENTRIES_MAX + 1);
}

TEST(nonsense_is_refused_whole)
{
	static void (*const cases[])(struct put * p) = { a_path_that_climbs, an_absolute_path,
		an_unknown_kind, half_a_truth, a_wrong_number, no_end, something_behind,
		more_of_a_whole_one, more_that_says_nothing, more_twice, too_many };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inventory got = { 0 };
		CLEANUP(put_fini) struct put p;

		put_init(&p, 1 << 20);
		cases[i](&p);
		CHECK_EQ(read_back(&p, &got), -EBADMSG);
		CHECK(got.at == NULL);
	}
}

TESTS(UNIT(what_was_put_is_read), UNIT(what_is_no_file_has_no_digest), UNIT(an_empty_one_is_one),
	UNIT(what_is_known_of_the_rest_is_read),
	UNIT(what_is_dropped_is_counted_if_it_is_a_file_of_somebody),
	UNIT(more_entries_than_the_limit_are_cut),
	UNIT(more_bytes_than_the_limit_are_cut_and_the_longest_fits_a_message),
	UNIT(nonsense_is_refused_whole))
