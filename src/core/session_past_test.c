#include "base/date.h"
#include "core/identity.h"
#include "core/service_sample.h"
#include "core/session_private.h"

static struct session *make_named(struct sample *m, const char *user, const char *name)
{
	struct identity who = sample_who(user);
	struct sample_answer a = { 0 };
	struct request request;

	sample_parse("{\"base_image\":\"host\"}", REQUEST_SESSION, &request);
	struct session_wish wish = {
		.request = &request, .who = &who, .source = "mcp", .name = name
	};
	session_obtain(m->service, &wish, sample_on_session, &a);
	request_fini(&request);
	SAMPLE_UNTIL(m, a.n);
	CHECK_EQ(a.status, 0);
	return a.session;
}

static const char *expired(struct sample *m, const char *user, const char *name)
{
	struct identity who = sample_who(user);

	return session_expired_at(m->service, name, &who);
}

TEST(one_that_expired_is_remembered_until_its_name_is_used_again)
{
	SAMPLE(m);
	m.settings.session_ttl_sec = 100;
	sample_open(&m);
	struct session *session = make_named(&m, "alice", "mine");
	char id[UUID_SIZE + 1], at[DATE_SIZE + 1];

	CHECK(!expired(&m, "alice", "mine"));
	session->row.expires_sec = 1; /* which is over, and nobody has noticed yet */
	memcpy(id, session->row.id, sizeof(id));
	(void)snprintf(at, sizeof(at), "%s", session->row.expires_at);
	CHECK_STR(expired(&m, "alice", "mine"), at);
	session_expire(m.service, 2);
	SAMPLE_UNTIL(&m, m.service->n_sessions == 0);
	CHECK_STR(expired(&m, "alice", "mine"), at);
	CHECK_STR(expired(&m, "alice", id), at);
	CHECK(!expired(&m, "bob", "mine"));
	CHECK(!expired(&m, "alice", "other"));
	CHECK(!expired(&m, "alice", ""));
	(void)make_named(&m, "alice", "mine");
	CHECK(!expired(&m, "alice", "mine"));
	sample_remove(&m);
}

TEST(a_new_one_did_not_expire_when_the_old_one_is_noticed_to_have)
{
	SAMPLE(m);
	m.settings.session_ttl_sec = 100;
	sample_open(&m);
	struct session *old = make_named(&m, "alice", "mine");
	struct sample_answer gone = { 0 };
	char id[UUID_SIZE + 1];

	old->row.expires_sec = 1;
	memcpy(id, old->row.id, sizeof(id));
	struct session *new = make_named(&m, "alice", "mine");
	CHECK(new != old);
	session_expire(m.service, 2);
	SAMPLE_UNTIL(&m, m.service->n_sessions == 1);
	session_delete(new, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK(!expired(&m, "alice", "mine"));
	CHECK(expired(&m, "alice", id));
	sample_remove(&m);
}

TEST(one_that_was_deleted_did_not_expire)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer gone = { 0 };

	session_delete(make_named(&m, "alice", "mine"), sample_on_session, &gone);
	CHECK(!expired(&m, "alice", "mine"));
	SAMPLE_UNTIL(&m, gone.n);
	CHECK(!expired(&m, "alice", "mine"));
	sample_remove(&m);
}

TEST(the_last_ones_are_remembered)
{
	SAMPLE(m);
	sample_open(&m);
	struct session session = { .service = m.service };
	char name[16];

	session.row.user_id = (char *)"alice";
	session.row.id = (char *)"an id";
	session.row.name = name;
	session.row.expires_at = (char *)"then";
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "s%d", i);
		session_past_add(&session);
	}
	CHECK(!expired(&m, "alice", "s43"));
	CHECK_STR(expired(&m, "alice", "s44"), "then");
	CHECK_STR(expired(&m, "alice", "s299"), "then");
	sample_remove(&m);
}

TESTS(UNIT(one_that_expired_is_remembered_until_its_name_is_used_again),
	UNIT(a_new_one_did_not_expire_when_the_old_one_is_noticed_to_have),
	UNIT(one_that_was_deleted_did_not_expire), UNIT(the_last_ones_are_remembered))
