#include "store/operation.h"

#include <errno.h>

#include "base/str.h"
#include "lib/test.h"
#include "store/store_backend.h"

TEST(a_list_keeps_the_order)
{
	struct operation ops[4] = { 0 };
	struct operations a = { 0 };
	struct operations b = { 0 };

	operations_move(&a, &b);
	CHECK(operations_take_first(&a) == NULL);
	operations_add(&a, &ops[0]);
	operations_add(&b, &ops[1]);
	operations_add(&b, &ops[2]);
	operations_move(&a, &b);
	CHECK(operations_take_first(&b) == NULL);
	operations_add(&a, &ops[3]);
	for (int i = 0; i < 4; i++)
		CHECK(operations_take_first(&a) == &ops[i]);
	CHECK(operations_take_first(&a) == NULL);
	operations_add(&a, &ops[2]);
	CHECK(operations_take_first(&a) == &ops[2]);
}

static int n_observed;

static void observe(const struct operation *op)
{
	(void)op;
	n_observed++;
}

static void answer_commit(struct store *s, int r)
{
	struct operation *op = xnew(struct operation);

	op->store = s;
	op->kind = OPERATION_COMMIT;
	op->r = r;
	op->observe = observe;
	op->commit.batch = store_batch_new(s);
	operation_answer(op);
}

/* A caller's mistake does not make a store ill, nor well. */
TEST(health_is_that_of_the_last_commit_that_tells)
{
	static const struct {
		int r;
		int health;
	} commits[] = {
		{ 0, 0 },
		{ -EEXIST, 0 },
		{ -ENOSPC, -ENOSPC },
		{ -EINVAL, -ENOSPC },
		{ -ECANCELED, -ENOSPC },
		{ -EIO, -EIO },
		{ 0, 0 },
	};
	struct store s = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(commits); i++) {
		answer_commit(&s, commits[i].r);
		CHECK_EQ(store_health(&s), commits[i].health);
	}
	CHECK_EQ(n_observed, ARRAY_SIZE(commits));
}

TESTS(UNIT(a_list_keeps_the_order), UNIT(health_is_that_of_the_last_commit_that_tells))
