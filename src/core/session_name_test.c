/* Sessions by their names, and how long they stay. */
#include <string.h>
#include <time.h>

#include "core/service_sample.h"

static void ask(struct sample *m, struct sample_answer *a, const char *user, const char *name)
{
	struct identity who = sample_who(user);
	struct request request;

	*a = (struct sample_answer){ 0 };
	sample_parse("{\"base_image\":\"host\"}", REQUEST_SESSION, &request);
	struct session_wish wish = {
		.request = &request, .who = &who, .source = "mcp", .name = name
	};
	session_obtain(m->service, &wish, sample_on_session, a);
	request_fini(&request);
}

TEST(a_name_is_short_and_plain_and_no_id)
{
	static const char *const good[] = { "a", "sess_123", "A-b.c", "-", "7" };
	static const char *const bad[] = { "", ".", "..", ".a", "a/b", "a b", "a\\b", "a%2f",
		"\xc3\xa4", "a\n", "00000000-0000-4000-8000-000000000000", "a:b" };
	char longest[SESSION_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(session_name_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!session_name_is_valid(bad[i]));
	memset(longest, 'a', sizeof(longest));
	longest[SESSION_NAME_MAX] = '\0';
	CHECK(session_name_is_valid(longest));
	longest[SESSION_NAME_MAX] = 'a';
	longest[SESSION_NAME_MAX + 1] = '\0';
	CHECK(!session_name_is_valid(longest));
}

TEST(who_asks_while_it_is_made_gets_the_same_one)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, b, c, other;

	ask(&m, &a, "alice", "mine");
	ask(&m, &b, "alice", "mine");
	ask(&m, &other, "bob", "mine");
	SAMPLE_UNTIL(&m, a.n && b.n && other.n);
	ask(&m, &c, "alice", "mine");
	CHECK_EQ(c.n, 1);
	CHECK(a.session && a.session == b.session && a.session == c.session);
	CHECK(other.session && other.session != a.session);
	CHECK_EQ(m.service->n_sessions, 2);
	sample_remove(&m);
}

TEST(a_name_or_an_id_finds_only_what_is_ones_own)
{
	SAMPLE(m);
	sample_open(&m);
	struct identity alice = sample_who("alice");
	struct identity bob = sample_who("bob");
	struct sample_answer a;
	struct sample_answer gone = { 0 };

	ask(&m, &a, "alice", "mine");
	SAMPLE_UNTIL(&m, a.n);
	CHECK(session_find_named(m.service, "mine", &alice) == a.session);
	CHECK(session_find_named(m.service, a.id, &alice) == a.session);
	CHECK(session_find_named(m.service, "mine", &bob) == NULL);
	CHECK(session_find_named(m.service, a.id, &bob) == NULL);
	CHECK_STR(session_shown_id(a.session), "mine");
	AUTO_JSON *json = session_json(a.session);
	CHECK_STR(json_string_value(json_object_get(json, "name")), "mine");
	session_delete(a.session, sample_on_session, &gone);
	CHECK(session_find_named(m.service, "mine", &alice) == NULL);
	SAMPLE_UNTIL(&m, gone.n);
	sample_remove(&m);
}

/* Those that wait are told as well. */
TEST(when_it_can_not_be_made_everybody_hears_why)
{
	SAMPLE(m);
	m.settings.max_sessions_per_user = 1;
	sample_open(&m);
	struct sample_answer first, a, b;

	ask(&m, &first, "alice", "one");
	SAMPLE_UNTIL(&m, first.n);
	ask(&m, &a, "alice", "two");
	ask(&m, &b, "alice", "two");
	SAMPLE_UNTIL(&m, a.n && b.n);
	CHECK_EQ(a.status, 429);
	CHECK_EQ(b.status, 429);
	CHECK(m.service->namings == NULL);
	sample_answer_fini(&a);
	sample_answer_fini(&b);
	sample_remove(&m);
}

/* Whoever comes second hears so, also while the first is being made. */
TEST(a_name_is_given_to_one_only)
{
	SAMPLE(m);
	sample_open(&m);
	struct identity alice = sample_who("alice");
	struct identity bob = sample_who("bob");
	struct sample_answer a = { 0 }, b = { 0 }, c = { 0 }, other = { 0 };
	struct request request;

	sample_parse("{\"base_image\":\"host\"}", REQUEST_SESSION, &request);
	struct session_wish wish = {
		.request = &request, .who = &alice, .source = "rest", .name = "mine"
	};
	session_create_named(m.service, &wish, sample_on_session, &a);
	session_create_named(m.service, &wish, sample_on_session, &b);
	CHECK_EQ(b.status, 409);
	CHECK_STR(b.code, "session_name_taken");
	wish.who = &bob;
	session_create_named(m.service, &wish, sample_on_session, &other);
	SAMPLE_UNTIL(&m, a.n && other.n);
	CHECK(a.session && other.session && a.session != other.session);
	wish.who = &alice;
	session_create_named(m.service, &wish, sample_on_session, &c);
	CHECK_EQ(c.status, 409);
	CHECK_EQ(m.service->n_sessions, 2);
	request_fini(&request);
	sample_answer_fini(&b);
	sample_answer_fini(&c);
	sample_remove(&m);
}

struct look {
	int n;
	int64_t expires_sec;
	char name[32];
};

static void on_rows(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct look *l = ctx;
	const struct session_row *row = rows;

	(void)total;
	CHECK_EQ(r, 0);
	CHECK_EQ(n, 1);
	l->n++;
	l->expires_sec = row->expires_sec;
	(void)snprintf(l->name, sizeof(l->name), "%s", row->name ? row->name : "");
}

static struct look stored(struct sample *m)
{
	struct query q = { .table = &session_table };
	struct look l = { 0 };

	store_list(m->service->store, &q, on_rows, &l);
	SAMPLE_UNTIL(m, l.n);
	return l;
}

TEST(its_name_is_stored_and_use_makes_it_last)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a;

	ask(&m, &a, "alice", "mine");
	SAMPLE_UNTIL(&m, a.n);
	struct look before = stored(&m);
	CHECK_STR(before.name, "mine");
	/* As if it were of an hour ago. */
	a.session->row.expires_sec -= 3600;
	a.session->kept_sec -= 3600;
	session_touch(a.session);
	CHECK(a.session->row.expires_sec >= before.expires_sec);
	CHECK(stored(&m).expires_sec >= before.expires_sec);
	int64_t kept = a.session->kept_sec;
	session_touch(a.session); /* which is not worth a word to the store */
	CHECK_EQ(a.session->kept_sec, kept);
	sample_remove(&m);
}

TEST(one_in_use_does_not_expire)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a;

	ask(&m, &a, "alice", "mine");
	SAMPLE_UNTIL(&m, a.n);
	uint64_t later = (uint64_t)a.session->row.expires_sec + 1;
	a.session->n_runs++;
	session_expire(m.service, later);
	CHECK(!a.session->is_ending);
	a.session->n_runs--;
	session_expire(m.service, later);
	CHECK(a.session->is_ending);
	SAMPLE_UNTIL(&m, m.service->n_sessions == 0);
	sample_remove(&m);
}

TESTS(UNIT(a_name_is_short_and_plain_and_no_id), UNIT(who_asks_while_it_is_made_gets_the_same_one),
	UNIT(a_name_or_an_id_finds_only_what_is_ones_own),
	UNIT(when_it_can_not_be_made_everybody_hears_why), UNIT(a_name_is_given_to_one_only),
	UNIT(its_name_is_stored_and_use_makes_it_last), UNIT(one_in_use_does_not_expire))
