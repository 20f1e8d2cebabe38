#include "ipc/result.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "ipc/cur.h"
#include "lib/random.h"
#include "lib/test.h"

static struct result random_result(uint64_t *seed)
{
	struct result r = {
		.reason = (enum reason)random_below(seed, REASON_COUNT),
		.exit_code = (int32_t)random_between(seed, 0, 255) - 1,
		.signal = (int32_t)random_below(seed, 65),
		.error = (int32_t)random_below(seed, 134),
		.created_ns = random_next(seed),
		.started_ns = random_next(seed),
		.ended_ns = random_next(seed),
		.enforced = random_next(seed) & FACET_ALL,
		.usage = { random_next(seed), random_next(seed), random_next(seed), USAGE_UNKNOWN,
			random_next(seed), random_next(seed) },
	};

	spec_make_id(r.id);
	memset(r.message, 'm', random_below(seed, sizeof(r.message)));
	return r;
}

TEST(a_result_survives_the_wire)
{
	uint64_t seed = 1;

	for (int i = 0; i < 200; i++) {
		struct result sent = random_result(&seed);
		struct result got;
		struct put p;
		struct cur c;

		put_init(&p, 1024);
		result_put(&sent, &p);
		CHECK_EQ(put_end(&p), 0); /* fits what the keeper reserves */
		cur_init(&c, p.data, p.size);
		result_get(&got, &c);
		CHECK_EQ(cur_end(&c), 0);
		CHECK_STR(got.id, sent.id);
		CHECK_STR(got.message, sent.message);
		CHECK_EQ(got.reason, sent.reason);
		CHECK_EQ(got.exit_code, sent.exit_code);
		CHECK_EQ(got.signal, sent.signal);
		CHECK_EQ(got.error, sent.error);
		CHECK(got.created_ns == sent.created_ns && got.started_ns == sent.started_ns);
		CHECK(got.ended_ns == sent.ended_ns && got.enforced == sent.enforced);
		CHECK_MEM(&got.usage, &sent.usage, sizeof(got.usage));
		put_fini(&p);
	}
}

static int read_back(const struct result *sent)
{
	struct result got;
	struct put p;
	struct cur c;

	put_init(&p, 1024);
	result_put(sent, &p);
	cur_init(&c, p.data, p.size);
	result_get(&got, &c);
	int r = cur_end(&c);
	put_fini(&p);
	return r;
}

TEST(unknown_reasons_and_facets_are_refused)
{
	uint64_t seed = 2;
	struct result r = random_result(&seed);

	CHECK_EQ(read_back(&r), 0);
	r.enforced = FACET_ALL + 1;
	CHECK_EQ(read_back(&r), -EBADMSG);
	r.enforced = 0;
	r.reason = REASON_COUNT;
	CHECK_EQ(read_back(&r), -EBADMSG);
	r.reason = (enum reason)UINT32_MAX;
	CHECK_EQ(read_back(&r), -EBADMSG);
}

TEST(every_prefix_of_a_result_is_refused)
{
	uint64_t seed = 3;
	struct result sent = random_result(&seed);
	struct put p;

	put_init(&p, 1024);
	result_put(&sent, &p);
	for (size_t n = 0; n < p.size; n++) {
		struct result got;
		struct cur c;

		cur_init(&c, p.data, n);
		result_get(&got, &c);
		CHECK_EQ(cur_end(&c), -EBADMSG);
		CHECK((unsigned)got.reason < REASON_COUNT);
	}
	put_fini(&p);
}

TEST(every_reason_has_a_name_and_a_phase)
{
	static const char *const phases[] = { "completed", "failed", "timed_out", "killed" };

	for (int i = 0; i < REASON_COUNT; i++) {
		bool known = false;

		CHECK(reason_name((enum reason)i) != NULL);
		for (size_t j = 0; j < ARRAY_SIZE(phases); j++)
			known = known || streq(reason_phase((enum reason)i), phases[j]);
		CHECK(known);
		for (int j = 0; j < i; j++)
			CHECK(!streq(reason_name((enum reason)i), reason_name((enum reason)j)));
	}
}

TESTS(UNIT(a_result_survives_the_wire), UNIT(unknown_reasons_and_facets_are_refused),
	UNIT(every_prefix_of_a_result_is_refused), UNIT(every_reason_has_a_name_and_a_phase))
