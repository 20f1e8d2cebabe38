#include "ipc/twins.h"

#include "base/cleanup.h"
#include "lib/test.h"

static const char *meet(struct twins *t, dev_t dev, ino_t ino, const char *name)
{
	struct stat st = { .st_dev = dev, .st_ino = ino };
	const char *before = NULL;

	CHECK_EQ(twins_meet(t, &st, name, &before, NULL), 0);
	return before;
}

TEST(the_first_name_is_told_to_the_others)
{
	CLEANUP(twins_fini) struct twins t = { 0 };

	CHECK(!meet(&t, 1, 7, "a"));
	CHECK(!meet(&t, 1, 8, "b"));
	CHECK(!meet(&t, 2, 7, "of another disk"));
	CHECK_STR(meet(&t, 1, 7, "c"), "a");
	CHECK_STR(meet(&t, 1, 7, "d"), "a");
	CHECK_STR(meet(&t, 1, 8, "e"), "b");
	CHECK_STR(meet(&t, 2, 7, "f"), "of another disk");
}

TEST(many_are_found_again)
{
	CLEANUP(twins_fini) struct twins t = { 0 };
	char name[16];

	for (ino_t i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "%lu", (unsigned long)i);
		CHECK(!meet(&t, 0, i, name));
	}
	for (ino_t i = 0; i < 20000; i++) {
		(void)snprintf(name, sizeof(name), "%lu", (unsigned long)i);
		CHECK_STR(meet(&t, 0, i, "other"), name);
	}
}

TESTS(UNIT(the_first_name_is_told_to_the_others), UNIT(many_are_found_again))
