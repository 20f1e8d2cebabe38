#include "core/claim.h"

#include "core/service_sample.h"

#define FIRST  "1111111111111111111111111111111111111111111111111111111111111111"
#define SECOND "2222222222222222222222222222222222222222222222222222222222222222"

struct told {
	unsigned n;
	enum claim_outcome outcome;
	struct claim *claim;
	char id[UUID_SIZE + 1];
	uint64_t created_sec;
};

static void on_claim(void *ctx, const struct claim_answer *a)
{
	struct told *t = ctx;

	t->n++;
	t->outcome = a->outcome;
	t->claim = a->claim;
	t->created_sec = a->created_sec;
	(void)snprintf(t->id, sizeof(t->id), "%s", a->object_id ? a->object_id : "");
}

static void begin(
	struct sample *m, struct told *t, const char *user, const char *key, const char *print)
{
	struct claim_request r = {
		.endpoint = "runs", .user = user, .key = key, .fingerprint = print
	};

	*t = (struct told){ 0 };
	claim_begin(m->service, &r, on_claim, t);
}

static void on_stored(void *ctx, int r)
{
	CHECK_EQ(r, 0);
	++*(unsigned *)ctx;
}

static void store(struct sample *m, struct told *t)
{
	struct store_batch *b = store_batch_new(m->service->store);
	unsigned n = 0;

	claim_store(t->claim, b);
	store_commit(b, on_stored, &n);
	SAMPLE_UNTIL(m, n == 1);
	claim_end(t->claim, 0);
}

TEST(without_a_key_every_request_is_new)
{
	SAMPLE(m);
	sample_open(&m);
	struct told a, b;

	begin(&m, &a, "alice", NULL, FIRST);
	begin(&m, &b, "alice", NULL, FIRST);
	CHECK_EQ(a.n + b.n, 2);
	CHECK(a.outcome == CLAIM_NEW && b.outcome == CLAIM_NEW);
	CHECK(!streq(a.id, b.id) && !a.claim);
	claim_end(NULL, 0);
	sample_remove(&m);
}

TEST(a_key_that_was_used_is_a_replay_or_a_conflict)
{
	SAMPLE(m);
	sample_open(&m);
	struct told a, b, c, d;

	begin(&m, &a, "alice", "k", FIRST);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.outcome, CLAIM_NEW);
	CHECK(uuid_is_valid(a.id));
	store(&m, &a);
	begin(&m, &b, "alice", "k", FIRST);
	begin(&m, &c, "alice", "k", SECOND);
	begin(&m, &d, "bob", "k", FIRST);
	SAMPLE_UNTIL(&m, b.n && c.n && d.n);
	CHECK_EQ(b.outcome, CLAIM_REPLAY);
	CHECK_STR(b.id, a.id);
	CHECK_EQ(c.outcome, CLAIM_CONFLICT);
	CHECK_STR(c.id, a.id);
	CHECK(c.created_sec > 0);
	CHECK_EQ(d.outcome, CLAIM_NEW);
	claim_end(d.claim, -EIO);
	CHECK(m.service->claims == NULL);
	sample_remove(&m);
}

TEST(a_key_is_free_again_after_its_time)
{
	SAMPLE(m);
	m.settings.idempotency_ttl_sec = 0;
	sample_open(&m);
	struct told a, b;

	begin(&m, &a, "alice", "k", FIRST);
	SAMPLE_UNTIL(&m, a.n);
	store(&m, &a);
	begin(&m, &b, "alice", "k", SECOND);
	SAMPLE_UNTIL(&m, b.n);
	CHECK_EQ(b.outcome, CLAIM_NEW);
	CHECK(!streq(a.id, b.id));
	store(&m, &b); /* over the old one */
	sample_remove(&m);
}

TEST(whoever_comes_second_waits_for_the_first)
{
	SAMPLE(m);
	sample_open(&m);
	struct told a, b, c;

	begin(&m, &a, "alice", "k", FIRST);
	begin(&m, &b, "alice", "k", FIRST);
	begin(&m, &c, "alice", "k", SECOND);
	SAMPLE_UNTIL(&m, a.n);
	sample_settle(&m);
	CHECK_EQ(b.n + c.n, 0);
	claim_end(a.claim, 0);
	CHECK_EQ(b.n + c.n, 2);
	CHECK_EQ(b.outcome, CLAIM_REPLAY);
	CHECK_STR(b.id, a.id);
	CHECK_EQ(c.outcome, CLAIM_CONFLICT);
	CHECK(m.service->claims == NULL);
	sample_remove(&m);
}

TEST(whoever_came_first_of_those_that_wait_takes_over)
{
	SAMPLE(m);
	sample_open(&m);
	struct told a, b, c;

	begin(&m, &a, "alice", "k", FIRST);
	begin(&m, &b, "alice", "k", SECOND);
	begin(&m, &c, "alice", "k", SECOND);
	SAMPLE_UNTIL(&m, a.n);
	claim_end(a.claim, -ECANCELED);
	CHECK_EQ(b.n, 1);
	CHECK_EQ(c.n, 0);
	CHECK_EQ(b.outcome, CLAIM_NEW);
	CHECK(!streq(a.id, b.id));
	store(&m, &b);
	CHECK_EQ(c.outcome, CLAIM_REPLAY);
	CHECK_STR(c.id, b.id);
	begin(&m, &a, "alice", "k", FIRST); /* stored is what the second asked for */
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.outcome, CLAIM_CONFLICT);
	sample_remove(&m);
}

/* Calls 1 and 2 are of the start. */
TEST(when_the_store_can_not_tell_all_are_told_so)
{
	SAMPLE(m);
	(void)snprintf(m.store, sizeof(m.store), "fault:3:memory:");
	sample_open(&m);
	struct told a, b;

	begin(&m, &a, "alice", "k", FIRST);
	begin(&m, &b, "alice", "k", FIRST);
	SAMPLE_UNTIL(&m, a.n && b.n);
	CHECK(a.outcome == CLAIM_FAILED && b.outcome == CLAIM_FAILED);
	CHECK(m.service->claims == NULL);
	begin(&m, &a, "alice", "k", FIRST);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.outcome, CLAIM_NEW);
	sample_remove(&m); /* with it under way */
}

TESTS(UNIT(without_a_key_every_request_is_new), UNIT(a_key_that_was_used_is_a_replay_or_a_conflict),
	UNIT(a_key_is_free_again_after_its_time), UNIT(whoever_comes_second_waits_for_the_first),
	UNIT(whoever_came_first_of_those_that_wait_takes_over),
	UNIT(when_the_store_can_not_tell_all_are_told_so))
