/* How interpreters end, and what whoever asks next is told. */
#include "core/kernel.h"

#include "core/kernel_sample.h"

TEST(time_that_is_over_interrupts_and_then_ends)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	ask_ms(session, "import time\ntime.sleep(100)", 50, &h);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_INTERRUPTED);
	CHECK(h.was_late);
	ask_ms(session,
		"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile 1: pass", 50,
		&h);
	await_end(&m, 0, &h);
	CHECK(h.was_late);
	CHECK_STR(h.reason, "execution_timeout");
	run_fresh(&m, session, 1, "x", &h);
	CHECK_STR(h.error, "NameError");
	CHECK_EQ(h.fresh, KERNEL_AFTER_DEATH);
	CHECK_STR(h.fresh_reason, "execution_timeout");
	CHECK_EQ(h.count, 1);
	finish(&m, 1);
}

/* More than runs have by default, but not more than the policy allows. */
TEST(an_execution_may_take_as_long_as_it_asked_for)
{
	SAMPLE(m);
	m.settings.exec_timeout_sec = 1;
	struct heard h;
	struct session *session = begin(&m, &h);

	ask_ms(session, "import time\ntime.sleep(1.3)\n6", 60000, &h);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK_STR(h.result, "6");
	run(&m, session, "time.sleep(60)", &h);
	CHECK(h.was_late);
	CHECK(h.wall_ns < 30 * UINT64_C(1000000000));
	finish(&m, 0);
}

/* The next need not wait for its time to be over. */
TEST(one_that_nobody_wants_ends_also_if_it_takes_no_interrupt)
{
	SAMPLE(m);
	struct heard h, next;
	struct session *session = begin(&m, &h);

	ask(session,
		"while True:\n"
		"    try:\n"
		"        while True: open('on', 'w').close()\n"
		"    except KeyboardInterrupt: pass",
		&h);
	ask(session, "'x' in globals()", &next);
	SAMPLE_UNTIL(&m, faccessat(m.dir.fd, "work/on", F_OK, 0) == 0);
	kernel_cancel(session, &h);
	await_end(&m, 0, &h);
	CHECK(!h.was_late);
	CHECK_STR(h.reason, "canceled_by_user");
	start(&m, 1);
	SAMPLE_UNTIL(&m, next.n);
	CHECK_STR(next.result, "False");
	CHECK_EQ(next.fresh, KERNEL_AFTER_DEATH);
	CHECK_STR(next.fresh_reason, "canceled_by_user");
	finish(&m, 1);
}

/* What it printed before is not lost. */
TEST(one_that_dies_says_of_what_and_the_next_is_fresh)
{
	SAMPLE(m);
	struct heard h, next;
	struct session *session = begin(&m, &h);

	ask(session, "import os\nprint('last words', flush=True)\nos._exit(3)", &h);
	ask(session, "7", &next);
	struct job *j = sample_job(0);
	int status = 0;
	CHECK_EQ(waitpid(j->pid, &status, 0), j->pid);
	j->pid = 0;
	CHECK_EQ(WEXITSTATUS(status), 3);
	job_ends(j, REASON_NONZERO_EXIT, 3);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_DIED);
	CHECK_STR(h.reason, "nonzero_exit");
	CHECK_EQ(h.exit_code, 3);
	CHECK_STR(h.out, "last words\n");
	start(&m, 1);
	SAMPLE_UNTIL(&m, next.n);
	CHECK_STR(next.result, "7");
	CHECK_EQ(next.fresh, KERNEL_AFTER_DEATH);
	CHECK_STR(next.fresh_reason, "nonzero_exit");
	stop(1, REASON_OOM_KILLED); /* while it is idle */
	sample_settle(&m);
	run_fresh(&m, session, 2, "8", &next);
	CHECK_STR(next.fresh_reason, "oom_killed");
	finish(&m, 2);
}

TEST(a_restart_is_one)
{
	SAMPLE(m);
	struct heard h, next;
	struct session *session = begin(&m, &h);

	ask(session, "while True: pass", &h);
	ask(session, "'x' in globals()", &next);
	CHECK(kernel_restart(session));
	CHECK_EQ(sample_job(0)->n_cancels, 1);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_DIED);
	CHECK_STR(h.reason, "restarted");
	start(&m, 1);
	SAMPLE_UNTIL(&m, next.n);
	CHECK_STR(next.result, "False");
	CHECK_EQ(next.fresh, KERNEL_RESTARTED);
	finish(&m, 1);
}

/* A guest that took the driver's place. */
TEST(one_that_lies_is_ended)
{
	static const char *const lies[] = {
		"import os; os.write(3, b'nonsense')",
		"import os; os.write(3, b'R\\0\\0\\0\\0R\\0\\0\\0\\0')",
		"import os; os.write(3, b'D\\x0d\\0\\0\\0o\\2\\0\\0\\0okn\\1\\0\\0\\0001')",
		"import os; os.write(3, b'I\\xff\\xff\\xff\\xff')",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		SAMPLE(m);
		sample_open(&m);
		struct session *session = sample_session(&m);
		char code[160];
		struct heard h;

		(void)snprintf(code, sizeof(code), "%s\nimport time; time.sleep(100)", lies[i]);
		ask(session, "1", &h);
		start_python(&m, 0, code);
		await_end(&m, 0, &h);
		CHECK_STR(h.reason, "protocol_error");
		CHECK_EQ(sample_host.n_jobs, 1); /* it is not tried again by itself */
		sample_remove(&m);
	}
}

/* What Python imports before it comes to the driver can be the user's. */
TEST(one_that_never_gets_ready_is_ended)
{
	SAMPLE(m);
	m.settings.startup_timeout_sec = 1;
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct heard h;

	ask(session, "1", &h);
	start_python(&m, 0, "import time; time.sleep(100)");
	CHECK_EQ(m.service->queue.n_active, 1);
	await_end(&m, 0, &h);
	CHECK(h.was_late);
	CHECK_STR(h.reason, "execution_timeout");
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_remove(&m);
}

/* It is dead, and that is being stored: what is asked for now has not failed yet. */
TEST(one_that_is_dead_gets_no_more_work)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	stop(0, REASON_OOM_KILLED);
	run_fresh(&m, session, 1, "8", &h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK_STR(h.fresh_reason, "oom_killed");
	finish(&m, 1);
}

/* Restart one while the store's nth call fails. True if that was the one that makes it. */
static bool restart_with_fault(int n)
{
	SAMPLE(m);
	struct sample_answer a;
	struct heard h = { 0 };

	begin_with_fault(&m, n, &a);
	if (a.status == 0) {
		ask(a.session, "1", &h);
		CHECK(kernel_restart(a.session));
	}
	SAMPLE_UNTIL(&m, a.status || h.n || sample_host.n_jobs);
	bool was_refused = h.n > 0;
	if (was_refused) {
		CHECK_STR(h.code, "store_unavailable");
		run_fresh(&m, a.session, 0, "2", &h);
		CHECK_EQ(h.fresh, KERNEL_FIRST_USE);
		stop(0, REASON_EXIT_CODE_0);
	}
	sample_answer_fini(&a);
	sample_remove(&m);
	return was_refused;
}

/* Somebody wanted a fresh one, and it could not be stored: the next is made once. */
TEST(a_restart_is_forgotten_with_what_could_not_be_made)
{
	int n = 3;

	while (n < 9 && !restart_with_fault(n))
		n++;
	CHECK(n < 9);
}

/* Nobody asked it anything: what it says would be held until somebody does. */
TEST(one_that_speaks_while_it_is_idle_is_ended)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session,
		"import os, threading, time\n"
		"def say(): time.sleep(0.1); os.write(101, b'I\\0\\0\\1\\0')\n"
		"threading.Thread(target=say, daemon=True).start()",
		&h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	SAMPLE_UNTIL(&m, sample_job(0)->n_cancels == 1);
	stop(0, REASON_CANCELED_BY_USER);
	run_fresh(&m, session, 1, "1", &h);
	CHECK_STR(h.fresh_reason, "protocol_error");
	finish(&m, 1);
}

TEST(it_ends_with_its_session)
{
	SAMPLE(m);
	struct heard h, waits;
	struct sample_answer gone = { 0 };
	struct session *session = begin(&m, &h);

	ask(session, "while True: pass", &h);
	ask(session, "1", &waits);
	session_delete(session, sample_on_session, &gone);
	CHECK_EQ(sample_job(0)->n_cancels, 1);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_STR(h.reason, "canceled_by_user");
	CHECK_STR(waits.code, "session_not_found");
	sample_remove(&m);
}

static void on_drained(void *ctx)
{
	*(bool *)ctx = true;
}

TEST(a_server_that_drains_waits_for_what_is_executed_and_for_no_idle_one)
{
	SAMPLE(m);
	struct heard h, waits;
	bool is_drained = false;
	struct session *session = begin(&m, &h);

	ask(session, "import time; time.sleep(0.1); 5", &h);
	ask(session, "1", &waits);
	service_drain(m.service, on_drained, &is_drained);
	CHECK_EQ(sample_job(0)->n_cancels, 0);
	SAMPLE_UNTIL(&m, h.n && waits.n);
	CHECK_STR(h.result, "5");
	CHECK_STR(waits.code, "shutting_down");
	CHECK_EQ(sample_job(0)->n_cancels, 1);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, is_drained);
	ask(session, "1", &h);
	CHECK_STR(h.code, "shutting_down");
	sample_remove(&m);
}

TEST(a_new_server_ends_it_and_says_so)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	struct heard h;
	struct session *session = begin(&m, &h);
	char session_id[UUID_SIZE + 1];
	char run_hex[1][RUN_ID_SIZE + 1];
	char workspace[1][WORKSPACE_ID_SIZE + 1];

	memcpy(session_id, session->row.id, sizeof(session_id));
	memcpy(workspace[0], session->workspace, sizeof(workspace[0]));
	memcpy(run_hex[0], sample_job(0)->id, sizeof(run_hex[0]));
	sample_settle(&m);
	(void)kill(sample_job(0)->pid, SIGKILL);
	(void)waitpid(sample_job(0)->pid, NULL, 0);
	sample_shut(&m);
	sample_reset_host();
	sample_open_down(&m);
	sample_up((const char(*)[RUN_ID_SIZE + 1]) run_hex, 1,
		(const char(*)[WORKSPACE_ID_SIZE + 1]) workspace, 1);
	CHECK(sample_job(0)->is_adopted);
	CHECK_EQ(sample_job(0)->n_cancels, 1);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_CANCELED_BY_USER, -1);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	session = session_find(m.service, session_id, NULL);
	CHECK(session != NULL);
	run_fresh(&m, session, 1, "1", &h);
	CHECK_EQ(h.fresh, KERNEL_AFTER_SERVER_RESTART);
	finish(&m, 1);
}

/* While it is used the session stays, and then it ends with it. */
TEST(an_idle_kernel_does_not_keep_its_session)
{
	SAMPLE(m);
	m.settings.session_ttl_sec = 2;
	sample_open(&m);
	struct session *session = sample_session(&m);
	char id[UUID_SIZE + 1];
	struct heard h;

	memcpy(id, session->row.id, sizeof(id));
	run_fresh(&m, session, 0, "x = 1", &h);
	CHECK(kernel_is_idle(session));
	session->row.expires_sec = (int64_t)time(NULL) - 1;
	ask(session, "x", &h);
	CHECK(!kernel_is_idle(session));
	CHECK(session->row.expires_sec > time(NULL));
	SAMPLE_UNTIL(&m, h.n == 1);
	CHECK_STR(h.result, "1");
	session->row.expires_sec = (int64_t)time(NULL) - 1;
	SAMPLE_UNTIL(&m, sample_job(0)->n_cancels > 0);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, session_find(m.service, id, NULL) == NULL);
	sample_remove(&m);
}

TESTS(UNIT(time_that_is_over_interrupts_and_then_ends),
	UNIT(an_execution_may_take_as_long_as_it_asked_for),
	UNIT(one_that_nobody_wants_ends_also_if_it_takes_no_interrupt),
	UNIT(one_that_dies_says_of_what_and_the_next_is_fresh), UNIT(a_restart_is_one),
	UNIT(one_that_lies_is_ended), UNIT(one_that_never_gets_ready_is_ended),
	UNIT(one_that_is_dead_gets_no_more_work),
	UNIT(a_restart_is_forgotten_with_what_could_not_be_made),
	UNIT(one_that_speaks_while_it_is_idle_is_ended), UNIT(it_ends_with_its_session),
	UNIT(a_server_that_drains_waits_for_what_is_executed_and_for_no_idle_one),
	UNIT(a_new_server_ends_it_and_says_so), UNIT(an_idle_kernel_does_not_keep_its_session))
