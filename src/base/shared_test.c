#include "base/shared.h"

#include <string.h>

#include "lib/test.h"

TEST(lives_until_the_last_reference_goes)
{
	CLEANUP(shared_unrefp) struct shared *a = shared_new(3);
	struct shared *b = shared_ref(a);

	memcpy(shared_data(a), "abc", 3);
	shared_unref(b);
	CHECK_EQ(a->n_refs, 1);
	CHECK_EQ(a->size, 3);
	CHECK_EQ(memcmp(shared_data(a), "abc", 3), 0);
}

TEST(there_is_room_in_front)
{
	CLEANUP(shared_unrefp) struct shared *a = shared_new(1);

	memset(shared_data(a) - SHARED_HEADROOM, 'x', SHARED_HEADROOM);
	CHECK_EQ(a->n_refs, 1);
	CHECK_EQ(a->size, 1);
}

TEST(nothing_can_be_released)
{
	shared_unref(NULL);
}

TESTS(UNIT(lives_until_the_last_reference_goes), UNIT(there_is_room_in_front),
	UNIT(nothing_can_be_released))
