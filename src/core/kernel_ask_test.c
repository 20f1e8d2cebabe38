/* What becomes of an interpreter when whoever asked for it does not want it any more. */
#include "core/kernel_sample.h"

/* A session whose interpreters need an admin's approval, but for executions of 30 seconds. */
static struct session *begin_with_rules(struct sample *m, char ***ret_none)
{
	static char rule[] = "timeout_sec>30";
	static char *rules[] = { rule, NULL };

	*ret_none = m->settings.approval_for;
	m->settings.approval_for = rules;
	sample_open(m);
	return sample_session(m);
}

/* The next has the first interpreter there is: nothing was before it. */
static void check_next(struct sample *m, struct session *session)
{
	struct heard h;

	ask_ms(session, "3", 10000, &h);
	start(m, 0);
	SAMPLE_UNTIL(m, h.n);
	CHECK_STR(h.result, "3");
	CHECK_EQ(h.fresh, KERNEL_FIRST_USE);
}

TEST(what_waits_for_an_approval_ends_when_nobody_wants_it)
{
	SAMPLE(m);
	char **none;
	struct session *session = begin_with_rules(&m, &none);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };
	struct heard first, second;

	ask(session, "1", &first);
	ask(session, "2", &second);
	SAMPLE_UNTIL(&m, kernel_stage(session, &first) == KERNEL_AWAITS_APPROVAL);
	memcpy(id, m.service->runs->row.id, sizeof(id));
	kernel_cancel(session, &first);
	CHECK_EQ(first.outcome, KERNEL_INTERRUPTED);
	sample_settle(&m);
	CHECK(run_awaits_approval(run_find(m.service, id, NULL))); /* somebody wants it */
	kernel_cancel(session, &second);
	CHECK_EQ(first.n + second.n, 2);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "canceled_by_user");
	CHECK_EQ(m.service->queue.n_waiting, 0);
	check_next(&m, session);
	m.settings.approval_for = none;
	finish(&m, 0);
}

TEST(so_does_what_nobody_wants_before_it_is_stored)
{
	SAMPLE(m);
	char **none;
	struct session *session = begin_with_rules(&m, &none);
	struct heard h;

	ask(session, "1", &h);
	kernel_cancel(session, &h);
	CHECK_EQ(h.n, 1);
	sample_settle(&m);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	check_next(&m, session);
	m.settings.approval_for = none;
	finish(&m, 0);
}

/* Who asks while the run that was given up is being ended gets another. */
TEST(nobody_else_is_told_of_that_end)
{
	SAMPLE(m);
	char **none;
	struct session *session = begin_with_rules(&m, &none);
	struct heard h;

	ask(session, "1", &h);
	SAMPLE_UNTIL(&m, kernel_stage(session, &h) == KERNEL_AWAITS_APPROVAL);
	kernel_cancel(session, &h);
	check_next(&m, session);
	m.settings.approval_for = none;
	finish(&m, 0);
}

TEST(a_session_may_end_with_it)
{
	SAMPLE(m);
	char **none;
	struct session *session = begin_with_rules(&m, &none);
	struct sample_answer gone = { 0 };
	struct heard h;

	ask(session, "1", &h);
	SAMPLE_UNTIL(&m, kernel_stage(session, &h) == KERNEL_AWAITS_APPROVAL);
	kernel_cancel(session, &h);
	session_delete(session, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(m.service->n_runs, 0);
	m.settings.approval_for = none;
	sample_remove(&m);
}

TESTS(UNIT(what_waits_for_an_approval_ends_when_nobody_wants_it),
	UNIT(so_does_what_nobody_wants_before_it_is_stored), UNIT(nobody_else_is_told_of_that_end),
	UNIT(a_session_may_end_with_it))
