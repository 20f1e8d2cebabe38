#include "core/lister.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "ipc/inventory.h"
#include "lib/piped.h"
#include "lib/scratch.h"
#include "lib/test.h"

struct outcome {
	unsigned n;
	int r;
	struct inventory listing;
};

static void on_done(void *ctx, int r, struct inventory *listing)
{
	struct outcome *o = ctx;

	o->n++;
	o->r = r;
	o->listing = *listing;
	*listing = (struct inventory){ 0 };
}

/* What comes of these bytes, in pieces of `step`. */
static struct outcome hear(const void *data, size_t size, size_t step)
{
	struct outcome o = { 0 };
	struct piped p;

	piped_open(&p);
	(void)lister_start(&p.loop, p.from, on_done, &o);
	for (size_t at = 0; at < size && o.n == 0; at += step) {
		size_t n = size - at < step ? size - at : step;

		CHECK_EQ(fd_write_full(p.to, (const uint8_t *)data + at, n), 0);
		(void)uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	piped_close(&p);
	CHECK_EQ(o.n, 1);
	return o;
}

static void add(struct inventory *l, const char *path)
{
	struct inventory_entry e = { .kind = INVENTORY_FILE, .size = 1, .path = (char *)path };

	CHECK_EQ(inventory_add(l, &e), 0);
}

static struct outcome hear_listing(struct inventory *l, size_t step)
{
	CLEANUP(put_fini) struct put p;

	put_init(&p, INVENTORY_SIZE_MAX);
	inventory_put(l, &p);
	inventory_fini(l);
	return hear(p.data, p.size, step);
}

TEST(a_listing_is_heard_in_pieces_of_any_size)
{
	for (size_t step = 1; step < 100; step += 13) {
		struct inventory l = { .is_cut = true };

		add(&l, "a/b");
		add(&l, "h\xc3\xa4");
		struct outcome o = hear_listing(&l, step);
		CHECK_EQ(o.r, 0);
		CHECK_EQ(o.listing.n, 2);
		CHECK_STR(o.listing.at[0].path, "a/b");
		CHECK(o.listing.is_cut);
		inventory_fini(&o.listing);
	}
}

TEST(names_that_nobody_can_show_are_counted)
{
	struct inventory l = { 0 };

	add(&l, "\xff\xfe");
	add(&l, "good");
	add(&l, "two\nlines");
	add(&l, "%2e%2e/up");
	struct outcome o = hear_listing(&l, 4096);
	CHECK_EQ(o.listing.n, 1);
	CHECK_STR(o.listing.at[0].path, "good");
	CHECK_EQ(o.listing.n_unnamed, 3);
	inventory_fini(&o.listing);
}

TEST(nonsense_and_half_of_it_is_said)
{
	struct outcome o = hear("nonsense", 8, 8);

	CHECK_EQ(o.r, -EBADMSG);
	CHECK_EQ(o.listing.n, 0);
	o = hear("", 0, 1);
	CHECK_EQ(o.r, -ENODATA);
}

/* The box would go on for ever; it is hung up on. */
TEST(more_than_a_listing_can_have_is_not_read)
{
	AUTO_FREE char *flood = xcalloc(1, 4 << 20);
	struct outcome o = hear(flood, 4 << 20, 4096);

	CHECK_EQ(o.r, -EBADMSG);
}

TEST(the_longest_is_heard)
{
	struct inventory l = { 0 };
	char path[132];

	for (unsigned i = 0; i < INVENTORY_ENTRIES_MAX; i++) {
		(void)snprintf(path, sizeof(path), "%0131u", i);
		add(&l, path);
	}
	struct outcome o = hear_listing(&l, 4096);
	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.listing.n, INVENTORY_ENTRIES_MAX);
	inventory_fini(&o.listing);
}

TEST(one_that_is_freed_tells_nobody)
{
	struct outcome o = { 0 };
	struct piped p;
	size_t n_fds = scratch_count_fds();

	piped_open(&p);
	struct lister *l = lister_start(&p.loop, p.from, on_done, &o);
	lister_free(l);
	lister_free(NULL);
	(void)uv_run(&p.loop, UV_RUN_DEFAULT);
	piped_close(&p);
	CHECK_EQ(o.n, 0);
	CHECK_EQ(scratch_count_fds(), n_fds);
}

TESTS(UNIT(nonsense_and_half_of_it_is_said), UNIT(a_listing_is_heard_in_pieces_of_any_size),
	UNIT(names_that_nobody_can_show_are_counted),
	UNIT(more_than_a_listing_can_have_is_not_read), UNIT(the_longest_is_heard),
	UNIT(one_that_is_freed_tells_nobody))
