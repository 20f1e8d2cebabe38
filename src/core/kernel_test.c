/* The keeper is played, but the interpreter is Python's, with the driver that boxes get: a
 * process of ours behind the channels of a job. */
#include "core/kernel.h"

#include <sys/wait.h>

#include "core/service_sample.h"

struct heard {
	unsigned n;
	char code[64]; /* of a problem */
	enum kernel_outcome outcome;
	char out[64], err[64], result[64], error[64], traceback[512], reason[64], fresh_reason[64];
	uint64_t n_out;
	enum kernel_fresh fresh;
	uint32_t count;
	bool was_late;
	char changed[32]; /* the first file that was */
};

static void note(char *to, size_t room, const char *data, size_t size)
{
	(void)snprintf(to, room, "%.*s", (int)(size < room ? size : room - 1), data ? data : "");
}

#define NOTE(to, text) note(to, sizeof(to), (text).data, (text).size)

static void on_executed(void *ctx, struct kernel_result *r, struct problem *problem)
{
	struct heard *h = ctx;

	h->n++;
	(void)snprintf(h->code, sizeof(h->code), "%s", problem->code ? problem->code : "");
	CHECK((r == NULL) == (problem->status != 0));
	if (!r)
		return;
	h->outcome = r->outcome;
	note(h->out, sizeof(h->out), r->out.head, r->out.n_head);
	note(h->err, sizeof(h->err), r->err.head, r->err.n_head);
	h->n_out = r->out.total;
	NOTE(h->result, r->reply.result);
	NOTE(h->error, r->reply.error);
	NOTE(h->traceback, r->reply.traceback);
	(void)snprintf(h->reason, sizeof(h->reason), "%s", r->reason_code ? r->reason_code : "");
	(void)snprintf(h->fresh_reason, sizeof(h->fresh_reason), "%s", r->fresh_reason);
	h->fresh = r->fresh;
	h->count = r->execution_count;
	h->was_late = r->was_late;
	for (size_t i = 0; i < r->reply.listing.n && !h->changed[0]; i++) {
		if (r->reply.listing.at[i].is_changed)
			(void)snprintf(
				h->changed, sizeof(h->changed), "%s", r->reply.listing.at[i].path);
	}
}

static void ask_ms(struct session *session, const char *code, uint64_t ms, struct heard *h)
{
	struct kernel_wish wish = { .code = code, .size = strlen(code), .timeout_ms = ms };

	*h = (struct heard){ 0 };
	kernel_execute(session, &wish, on_executed, h);
}

static void ask(struct session *session, const char *code, struct heard *h)
{
	ask_ms(session, code, 0, h);
}

extern const char kernel_driver[];
extern const size_t kernel_driver_size;

/* The nth job starts: as a process in a directory of its own. */
static void start_python(struct sample *m, size_t n, const char *driver)
{
	SAMPLE_UNTIL(m, sample_host.n_jobs == n + 1);
	struct job *j = sample_job(n);
	char work[96];

	CHECK(j->talks);
	job_started(j);
	(void)snprintf(work, sizeof(work), "%s/work", m->dir.path);
	(void)mkdir(work, 0755);
	j->pid = fork();
	if (j->pid == 0) {
		(void)dup2(j->ends[CHANNEL_STDIN], 0);
		(void)dup2(j->ends[CHANNEL_STDOUT], 1);
		(void)dup2(j->ends[CHANNEL_STDERR], 2);
		(void)signal(SIGPIPE, SIG_DFL);
		if (chdir(work) == 0)
			(void)execlp("python3", "python3", "-c", driver, NULL);
		_exit(127);
	}
	job_closes(j);
	job_running(j);
}

static void start(struct sample *m, size_t n)
{
	AUTO_FREE char *driver = xcalloc(1, kernel_driver_size + 1);

	memcpy(driver, kernel_driver, kernel_driver_size);
	start_python(m, n, driver);
}

static void stop(size_t n, enum reason reason)
{
	struct job *j = sample_job(n);

	(void)kill(j->pid, SIGKILL);
	(void)waitpid(j->pid, NULL, 0);
	j->pid = 0;
	job_ends(j, reason, -1);
}

static void run(struct sample *m, struct session *session, const char *code, struct heard *h)
{
	ask(session, code, h);
	SAMPLE_UNTIL(m, h->n);
}

/* A session with an interpreter that has executed "x = 1". */
static struct session *begin(struct sample *m, struct heard *h)
{
	sample_open(m);
	struct session *session = sample_session(m);

	ask(session, "x = 1", h);
	start(m, 0);
	SAMPLE_UNTIL(m, h->n);
	CHECK_EQ(h->outcome, KERNEL_OK);
	return session;
}

static void finish(struct sample *m, size_t n)
{
	stop(n, REASON_EXIT_CODE_0);
	sample_settle(m);
	sample_remove(m);
}

TEST(variables_persist_and_the_last_expression_is_shown)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	CHECK_EQ(h.fresh, KERNEL_FIRST_USE);
	CHECK_EQ(h.count, 1);
	CHECK_STR(h.result, "");
	run(&m, session, "x += 41\nprint('out'); import sys; print('err', file=sys.stderr)\nx", &h);
	CHECK_STR(h.result, "42");
	CHECK_STR(h.out, "out\n");
	CHECK_STR(h.err, "err\n");
	CHECK_EQ(h.fresh, KERNEL_KEPT);
	CHECK_EQ(h.count, 2);
	run(&m, session, "_ + 1", &h);
	CHECK_STR(h.result, "43");
	run(&m, session, "import os; os.system('echo from a child'); os.write(2, b'raw\\xff')", &h);
	CHECK_STR(h.out, "from a child\n");
	CHECK_STR(h.err, "raw\xff");
	run(&m, session, "open('made', 'w').close()", &h);
	CHECK_STR(h.changed, "made");
	run(&m, session, "1", &h);
	CHECK_STR(h.changed, "");
	finish(&m, 0);
}

TEST(errors_are_told_whole_and_state_stays)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session, "def f():\n    return 1 / 0\nf()", &h);
	CHECK_EQ(h.outcome, KERNEL_ERROR);
	CHECK_STR(h.error, "ZeroDivisionError");
	CHECK(strstr(h.traceback, "return 1 / 0") && !strstr(h.traceback, "<string>"));
	run(&m, session, "x ===", &h);
	CHECK_STR(h.error, "SyntaxError");
	run(&m, session, "class A:\n    def __repr__(self): raise KeyError('no')\nA()", &h);
	CHECK_STR(h.error, "KeyError");
	run(&m, session, "input()", &h);
	CHECK_STR(h.error, "EOFError");
	run(&m, session, "exit(3)", &h);
	CHECK_STR(h.error, "SystemExit");
	run(&m, session, "import os; os.fork() and x", &h);
	CHECK_STR(h.result, "1");
	run(&m, session, "x", &h);
	CHECK_STR(h.result, "1");
	CHECK_EQ(h.fresh, KERNEL_KEPT);
	finish(&m, 0);
}

TEST(a_flood_is_cut_and_what_comes_late_is_told_next)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session, "print('x' * 10000000)", &h);
	CHECK_EQ(h.n_out, 10000001);
	run(&m, session, "'y' * 10000000", &h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK(str_after(h.result, "'yyyy"));
	run(&m, session, "import threading\nt = threading.Timer(0.05, print, ('late',))\nt.start()",
		&h);
	CHECK_STR(h.out, "");
	run(&m, session, "t.join()", &h);
	CHECK_STR(h.out, "late\n");
	finish(&m, 0);
}

TEST(an_interrupt_keeps_state)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	CHECK(!kernel_interrupt(session));
	ask(session, "x = 2\nprint('on', flush=True)\nwhile True: pass", &h);
	while (!h.n) { /* also many times, and while it tells of the first */
		(void)kernel_interrupt(session);
		sample_turn(&m);
	}
	CHECK_EQ(h.outcome, KERNEL_INTERRUPTED);
	CHECK_STR(h.error, "KeyboardInterrupt");
	CHECK(!h.was_late);
	run(&m, session, "x", &h);
	CHECK_EQ(h.fresh, KERNEL_KEPT);
	finish(&m, 0);
}

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
	SAMPLE_UNTIL(&m, sample_job(0)->n_cancels == 1);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_DIED);
	CHECK(h.was_late);
	CHECK_STR(h.reason, "execution_timeout");
	ask(session, "x", &h);
	start(&m, 1);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_STR(h.error, "NameError");
	CHECK_EQ(h.fresh, KERNEL_AFTER_DEATH);
	CHECK_STR(h.fresh_reason, "execution_timeout");
	CHECK_EQ(h.count, 1);
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
	CHECK_STR(h.out, "last words\n");
	start(&m, 1);
	SAMPLE_UNTIL(&m, next.n);
	CHECK_STR(next.result, "7");
	CHECK_EQ(next.fresh, KERNEL_AFTER_DEATH);
	CHECK_STR(next.fresh_reason, "nonzero_exit");
	stop(1, REASON_OOM_KILLED); /* while it is idle */
	sample_settle(&m);
	ask(session, "8", &next);
	start(&m, 2);
	SAMPLE_UNTIL(&m, next.n);
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
		"import os; os.write(0, b'nonsense')",
		"import os; os.write(0, b'R\\0\\0\\0\\0R\\0\\0\\0\\0')",
		"import os; os.write(0, b'D\\x0d\\0\\0\\0o\\2\\0\\0\\0okn\\1\\0\\0\\0001')",
		"import os; os.write(0, b'I\\xff\\xff\\xff\\xff')",
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
		SAMPLE_UNTIL(&m, sample_job(0)->n_cancels == 1);
		stop(0, REASON_CANCELED_BY_USER);
		SAMPLE_UNTIL(&m, h.n);
		CHECK_EQ(h.outcome, KERNEL_DIED);
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
	SAMPLE_UNTIL(&m, sample_job(0)->n_cancels == 1);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_DIED);
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
	ask(session, "8", &h);
	start(&m, 1);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK_STR(h.fresh_reason, "oom_killed");
	finish(&m, 1);
}

/* Somebody wanted a fresh one, and it could not be stored: the next is made once. */
TEST(a_restart_is_forgotten_with_what_could_not_be_made)
{
	unsigned n_refused = 0;

	for (int n = 3; n < 9 && n_refused == 0; n++) {
		SAMPLE(m);
		(void)snprintf(m.store, sizeof(m.store), "fault:%d:memory:", n);
		sample_open(&m);
		struct sample_answer a;
		struct heard h = { 0 };

		sample_ask_session(&m, &a, "alice", NULL, "{\"base_image\":\"host\"}");
		SAMPLE_UNTIL(&m, a.n);
		if (a.status == 0) {
			ask(a.session, "1", &h);
			CHECK(kernel_restart(a.session));
			SAMPLE_UNTIL(&m, h.n || sample_host.n_jobs);
		}
		if (h.n) {
			CHECK_STR(h.code, "store_unavailable");
			n_refused++;
			ask(a.session, "2", &h);
			start(&m, 0);
			SAMPLE_UNTIL(&m, h.n);
			CHECK_EQ(h.fresh, KERNEL_FIRST_USE);
			stop(0, REASON_EXIT_CODE_0);
		}
		sample_answer_fini(&a);
		sample_remove(&m);
	}
	CHECK(n_refused > 0);
}

/* Nobody asked it anything: what it says would be held until somebody does. */
TEST(one_that_speaks_while_it_is_idle_is_ended)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session,
		"import os, threading, time\n"
		"def say(): time.sleep(0.1); os.write(100, b'I\\0\\0\\1\\0')\n"
		"threading.Thread(target=say, daemon=True).start()",
		&h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	SAMPLE_UNTIL(&m, sample_job(0)->n_cancels == 1);
	stop(0, REASON_CANCELED_BY_USER);
	ask(session, "1", &h);
	start(&m, 1);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_STR(h.fresh_reason, "protocol_error");
	finish(&m, 1);
}

TEST(an_idle_one_holds_no_place_and_lives_as_long_as_its_session)
{
	SAMPLE(m);
	struct heard h;

	m.settings.max_concurrent_runs = 1;
	struct session *session = begin(&m, &h);
	CHECK_EQ(m.service->queue.n_active, 0);
	CHECK(sample_job(0)->timeout_ms > UINT64_C(1000) * (uint64_t)session->row.timeout_sec);
	ask(session, "import time; time.sleep(0.2)", &h);
	CHECK_EQ(m.service->queue.n_active, 1);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(m.service->queue.n_active, 0);
	finish(&m, 0);
}

TEST(what_can_not_be_executed_is_refused)
{
	SAMPLE(m);
	struct heard h, many[KERNEL_WAITING_MAX];
	struct session *session = begin(&m, &h);
	AUTO_FREE char *code = xcalloc(1, KERNEL_CODE_MAX + 2);

	memset(code, '#', KERNEL_CODE_MAX + 1);
	ask(session, code, &h);
	CHECK_STR(h.code, "payload_too_large");
	ask(session, "\xff", &h);
	CHECK_STR(h.code, "invalid_request");
	for (unsigned i = 0; i < KERNEL_WAITING_MAX; i++)
		ask(session, "1", &many[i]);
	ask(session, "1", &h);
	CHECK_STR(h.code, "queue_full");
	kernel_cancel(session, &many[5]);
	CHECK_EQ(many[5].n, 1);
	CHECK_EQ(many[5].outcome, KERNEL_INTERRUPTED);
	SAMPLE_UNTIL(&m, many[KERNEL_WAITING_MAX - 1].n);
	finish(&m, 0);
}

TEST(a_user_has_so_many_and_no_more)
{
	SAMPLE(m);
	struct heard h[KERNELS_PER_USER + 1];

	m.settings.max_concurrent_runs = 100;
	sample_open(&m);
	for (unsigned i = 0; i <= KERNELS_PER_USER; i++)
		ask(sample_session(&m), "1", &h[i]);
	SAMPLE_UNTIL(&m, h[KERNELS_PER_USER].n);
	CHECK_STR(h[KERNELS_PER_USER].code, "quota_exceeded");
	CHECK_EQ(h[0].n, 0);
	sample_remove(&m);
	CHECK_STR(h[0].code, "shutting_down");
}

TEST(variables_of_the_process_are_there_for_one_execution)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);
	AUTO_JSON *env = json_pack("{s:s, s:s}", "A", "1", "B", "");
	const char *code = "import os; os.environ['A'] + os.environ['B'] + '.'";
	struct kernel_wish wish = { .code = code, .size = strlen(code), .env = env };

	h = (struct heard){ 0 };
	kernel_execute(session, &wish, on_executed, &h);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_STR(h.result, "'1.'");
	run(&m, session, "'A' in os.environ", &h);
	CHECK_STR(h.result, "False");
	finish(&m, 0);
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
	(void)snprintf(m.store, sizeof(m.store), "sqlite:%s/store.db", m.dir.path);
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
	ask(session, "1", &h);
	start(&m, 1);
	SAMPLE_UNTIL(&m, h.n);
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
	ask(session, "x = 1", &h);
	start(&m, 0);
	SAMPLE_UNTIL(&m, h.n == 1);
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

TESTS(UNIT(an_idle_kernel_does_not_keep_its_session),
	UNIT(variables_persist_and_the_last_expression_is_shown),
	UNIT(errors_are_told_whole_and_state_stays),
	UNIT(a_flood_is_cut_and_what_comes_late_is_told_next), UNIT(an_interrupt_keeps_state),
	UNIT(time_that_is_over_interrupts_and_then_ends),
	UNIT(one_that_dies_says_of_what_and_the_next_is_fresh), UNIT(a_restart_is_one),
	UNIT(one_that_lies_is_ended), UNIT(one_that_speaks_while_it_is_idle_is_ended),
	UNIT(one_that_never_gets_ready_is_ended), UNIT(one_that_is_dead_gets_no_more_work),
	UNIT(a_restart_is_forgotten_with_what_could_not_be_made),
	UNIT(an_idle_one_holds_no_place_and_lives_as_long_as_its_session),
	UNIT(what_can_not_be_executed_is_refused), UNIT(a_user_has_so_many_and_no_more),
	UNIT(variables_of_the_process_are_there_for_one_execution), UNIT(it_ends_with_its_session),
	UNIT(a_server_that_drains_waits_for_what_is_executed_and_for_no_idle_one),
	UNIT(a_new_server_ends_it_and_says_so))
