#include "keeper/orders.h"

#include "keeper/boxes.h"
#include "lib/test.h"

TEST(what_was_asked_for_first_comes_first)
{
	struct orders o = { 0 };
	struct boxed boxes[3] = { { .next = boxes } };

	CHECK(!orders_next(&o));
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		orders_add(&o, &boxes[i]);
	CHECK_EQ(o.n, 3);
	CHECK(orders_next(&o) == &boxes[0]);
	orders_add(&o, &boxes[0]);
	CHECK(orders_next(&o) == &boxes[1]);
	CHECK(orders_next(&o) == &boxes[2]);
	CHECK(orders_next(&o) == &boxes[0]);
	CHECK(!orders_next(&o));
	CHECK_EQ(o.n, 0);
}

TESTS(UNIT(what_was_asked_for_first_comes_first))
