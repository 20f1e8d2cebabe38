#include "client/capture.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "lib/scratch.h"
#include "lib/test.h"

static void feed(struct capture *c, enum pack_kind kind, const char *name, uint64_t size)
{
	uint8_t buf[PACK_HEAD_SIZE + PACK_NAME_MAX];
	struct pack_entry e = { .kind = kind, .mode = 0644, .size = size };

	(void)snprintf(e.name, sizeof(e.name), "%s", name);
	CHECK_EQ(pack_feed(&c->reader, buf, pack_encode(&e, buf), NULL), 0);
}

TEST(a_pattern_without_a_file_is_found)
{
	static char first[] = "./a/*.txt", second[] = "*.png", third[] = "*.csv";
	char *const globs[] = { first, second, third, NULL };
	static struct capture c;
	SCRATCH(d);
	AUTO_FD dir = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	capture_init(&c, dir, globs, 100);
	CHECK(!capture_find_unmatched(&c)); /* more may come */
	feed(&c, PACK_FILE, "a/f.txt", 0);
	feed(&c, PACK_SKIP, "big.png", 1000);
	feed(&c, PACK_SKIP, "shut.png", 0);
	feed(&c, PACK_SKIP, "second.png", 1000);
	CHECK(!capture_find_unmatched(&c));
	feed(&c, PACK_END, "", 4);
	CHECK_STR(capture_find_unmatched(&c), "*.csv");
	CHECK_STR(c.skipped.first, "big.png");
	CHECK_EQ(c.skipped.n, 2);
	CHECK_STR(c.unreadable.first, "shut.png");
	CHECK_EQ(c.unreadable.n, 1);
	capture_fini(&c);
}

TEST(every_pattern_can_have_a_file)
{
	static char all[] = "**";
	char *const globs[] = { all, NULL };
	static struct capture c;
	SCRATCH(d);
	AUTO_FD dir = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	capture_init(&c, dir, globs, 100);
	feed(&c, PACK_FILE, "f", 0);
	feed(&c, PACK_END, "", 1);
	CHECK(!capture_find_unmatched(&c));
	CHECK_STR(c.skipped.first, "");
	capture_fini(&c);
}

TESTS(UNIT(a_pattern_without_a_file_is_found), UNIT(every_pattern_can_have_a_file))
