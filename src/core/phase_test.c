#include "core/phase.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "lib/test.h"

TEST(names_and_back)
{
	enum phase p = PHASE_COUNT;

	for (int i = 0; i < PHASE_COUNT; i++) {
		enum phase again = PHASE_COUNT;

		CHECK(phase_name((enum phase)i) != NULL);
		CHECK_EQ(phase_find(phase_name((enum phase)i), &again), 0);
		CHECK_EQ(again, i);
	}
	CHECK_STR(phase_name(PHASE_TIMED_OUT), "timed_out");
	CHECK_EQ(phase_find("", &p), -EINVAL);
	CHECK_EQ(phase_find("Queued", &p), -EINVAL);
	CHECK_EQ(p, PHASE_COUNT);
}

TEST(what_is_over_stays_over)
{
	for (int from = 0; from < PHASE_COUNT; from++) {
		bool has_next = false;

		for (int to = 0; to < PHASE_COUNT; to++)
			has_next |= phase_may_follow((enum phase)from, (enum phase)to);
		CHECK_EQ(has_next, !phase_is_over((enum phase)from));
		CHECK(!phase_may_follow((enum phase)from, (enum phase)from));
	}
	CHECK(!phase_is_over(PHASE_QUEUED));
	CHECK(!phase_is_over(PHASE_RUNNING));
	CHECK(phase_is_over(PHASE_KILLED));
}

TEST(the_way_of_a_run)
{
	static const struct {
		enum phase from, to;
		bool may;
	} moves[] = {
		{ PHASE_QUEUED, PHASE_STARTING, true },
		{ PHASE_QUEUED, PHASE_KILLED, true },
		{ PHASE_QUEUED, PHASE_FAILED, true },
		{ PHASE_QUEUED, PHASE_COMPLETED, false },
		{ PHASE_QUEUED, PHASE_TIMED_OUT, false },
		{ PHASE_STARTING, PHASE_RUNNING, true },
		{ PHASE_STARTING, PHASE_QUEUED, true },
		{ PHASE_STARTING, PHASE_TIMED_OUT, true },
		{ PHASE_STARTING, PHASE_COMPLETED, true },
		{ PHASE_RUNNING, PHASE_COMPLETED, true },
		{ PHASE_RUNNING, PHASE_QUEUED, false },
		{ PHASE_RUNNING, PHASE_STARTING, false },
		{ PHASE_COMPLETED, PHASE_FAILED, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		CHECK_EQ(phase_may_follow(moves[i].from, moves[i].to), moves[i].may);
}

TEST(every_reason_leads_to_an_end)
{
	for (int i = 0; i < REASON_COUNT; i++) {
		enum phase p = phase_of((enum reason)i);

		CHECK(phase_is_over(p));
		CHECK_STR(phase_name(p), reason_phase((enum reason)i));
	}
	CHECK_EQ(phase_of(REASON_EXIT_CODE_0), PHASE_COMPLETED);
	CHECK_EQ(phase_of(REASON_OOM_KILLED), PHASE_FAILED);
	CHECK_EQ(phase_of(REASON_EXECUTION_TIMEOUT), PHASE_TIMED_OUT);
	CHECK_EQ(phase_of(REASON_CANCELED_BY_USER), PHASE_KILLED);
}

static void check_status(enum phase p, const char *reason, bool limited)
{
	const struct phase_status *s = phase_describe(p, reason, limited);

	if (!s || !s->code || !s->category || !s->severity || !s->operator_action)
		fail_msg("%s for %s has no status", phase_name(p), reason ? reason : "nothing");
	else
		CHECK(s->terminal == phase_is_over(p) && (s->terminal || !s->retryable));
}

TEST(every_phase_has_a_status_for_every_reason)
{
	for (int i = 0; i < PHASE_COUNT; i++) {
		enum phase p = (enum phase)i;

		for (int j = 0; j < REASON_COUNT; j++) {
			check_status(p, reason_name((enum reason)j), false);
			check_status(p, reason_name((enum reason)j), true);
		}
		check_status(p, NULL, false);
		check_status(p, NULL, true);
		check_status(p, "unheard_of", false);
	}
}

TEST(what_people_are_told)
{
	static const struct {
		enum phase phase;
		const char *reason;
		bool limited;
		const char *code;
	} cases[] = {
		{ PHASE_QUEUED, NULL, false, "queued" },
		{ PHASE_RUNNING, NULL, true, "running" },
		{ PHASE_COMPLETED, "exit_code_0", false, "completed" },
		{ PHASE_COMPLETED, "exit_code_0", true, "limits_applied" },
		{ PHASE_FAILED, "nonzero_exit", false, "nonzero_exit" },
		{ PHASE_FAILED, "nonzero_exit", true, "limits_applied" },
		{ PHASE_FAILED, "policy_denied", false, "policy_failed" },
		{ PHASE_FAILED, "queue_ttl_expired", false, "queue_ttl_expired" },
		{ PHASE_FAILED, "image_pull_failed", false, "runtime_unavailable" },
		{ PHASE_FAILED, "signaled", false, "runtime_error" },
		{ PHASE_FAILED, NULL, false, "runtime_error" },
		{ PHASE_TIMED_OUT, "startup_timeout", false, "startup_timeout" },
		{ PHASE_TIMED_OUT, "execution_timeout", false, "execution_timeout" },
		{ PHASE_KILLED, "canceled_by_user", false, "canceled_by_user" },
		{ PHASE_KILLED, "canceled_by_user", true, "canceled_by_user" },
		{ PHASE_KILLED, NULL, false, "killed" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_STR(phase_describe(cases[i].phase, cases[i].reason, cases[i].limited)->code,
			cases[i].code);
}

/* Doing the same again changes neither of them. */
TEST(what_is_missing_is_not_retried)
{
	CHECK(!phase_describe(PHASE_FAILED, "image_pull_failed", false)->retryable);
	CHECK(!phase_describe(PHASE_FAILED, "exec_failed", false)->retryable);
	CHECK_STR(phase_describe(PHASE_FAILED, "exec_failed", false)->code, "runtime_error");
	CHECK(phase_describe(PHASE_FAILED, "infrastructure_error", false)->retryable);
}

TESTS(UNIT(names_and_back), UNIT(what_is_over_stays_over), UNIT(the_way_of_a_run),
	UNIT(every_reason_leads_to_an_end), UNIT(every_phase_has_a_status_for_every_reason),
	UNIT(what_people_are_told), UNIT(what_is_missing_is_not_retried))
