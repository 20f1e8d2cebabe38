/* What is executed by an interpreter, and what is refused. */
#include "core/kernel.h"

#include "core/kernel_private.h"
#include "core/kernel_sample.h"

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

/* An interpreter that is stopped has not read what is in its pipe when the interrupt comes. */
TEST(an_interrupt_before_the_code_is_read_is_kept)
{
	SAMPLE(m);
	struct heard h;
	static char large[200000]; /* which no pipe takes at once */
	struct session *session = begin(&m, &h);

	memset(large, ' ', sizeof(large) - 1);
	memcpy(large, "while True: pass #", strlen("while True: pass #"));
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(kill(sample_job(0)->pid, SIGSTOP), 0);
		ask_ms(session, i % 2 ? large : "while True: pass", 5000, &h);
		CHECK(kernel_interrupt(session));
		CHECK(kernel_interrupt(session)); /* ^C is often pressed twice */
		CHECK_EQ(kill(sample_job(0)->pid, SIGCONT), 0);
		SAMPLE_UNTIL(&m, h.n);
		CHECK_EQ(h.outcome, KERNEL_INTERRUPTED);
		CHECK(!h.was_late);
		run(&m, session, "1", &h);
		CHECK_EQ(h.outcome, KERNEL_OK);
	}
	finish(&m, 0);
}

/* It is pending before the code is written, so it is handled before the code is read. */
TEST(an_interrupt_between_executions_is_not_kept)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(kill(sample_job(0)->pid, SIGINT), 0);
		run(&m, session, "sum(range(100000))", &h);
		CHECK_EQ(h.outcome, KERNEL_OK);
	}
	finish(&m, 0);
}

/* The code tells that it has begun, so that it is what is interrupted. */
static void interrupt_begun(
	struct sample *m, struct session *session, const char *code, struct heard *h)
{
	(void)unlinkat(m->dir.fd, "work/on", 0);
	ask(session, code, h);
	SAMPLE_UNTIL(m, faccessat(m->dir.fd, "work/on", F_OK, 0) == 0);
	CHECK(kernel_interrupt(session));
	SAMPLE_UNTIL(m, h->n);
	CHECK(!strstr(h->traceback, "<string>"));
}

TEST(no_frame_of_ours_is_told_of_an_interrupt)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	interrupt_begun(&m, session, "while True: open('on', 'w').close()", &h);
	CHECK(strstr(h.traceback, "while True: open"));
	interrupt_begun(&m, session,
		"try:\n    while True: open('on', 'w').close()\nexcept KeyboardInterrupt:\n    1 / 0",
		&h);
	CHECK_STR(h.error, "ZeroDivisionError");
	CHECK(strstr(h.traceback, "while True: open") && strstr(h.traceback, "1 / 0"));
	finish(&m, 0);
}

#define PICTURE                                                                                    \
	"class P:\n"                                                                               \
	"    def __init__(self, size): self.size = size\n"                                         \
	"    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(self.size)\n"

TEST(a_value_that_is_a_picture_is_shown_as_one)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session, PICTURE "P(9)", &h);
	CHECK_EQ(h.n_images, 1);
	CHECK_STR(h.warning, "");
	run(&m, session, "P(9);", &h);
	CHECK_EQ(h.n_images, 0);
	run(&m, session, "P(5 << 20)", &h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK_EQ(h.n_images, 0);
	CHECK_EQ(h.n_images_cut, 1);
	CHECK(strstr(h.warning, "1 image is not shown: it has 5242888 bytes"));
	run(&m, session, "P._repr_png_ = lambda self: 1 / 0\nP(1)", &h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK_EQ(h.n_images_cut, 0);
	CHECK_STR(h.warning, "1 image is not shown: ZeroDivisionError: division by zero");
	finish(&m, 0);
}

TEST(only_a_semicolon_behind_it_hides_the_last_expression)
{
	static const char *const shown[] = { "5  # five;", "5 # ;\n# ;", "(5 # ;\n)", "1; 5",
		"5\n\n", "'\xc3\xa4;' and 5" };
	static const char *const hidden[] = { "5;", "5 ; # five", "(5) ;\n\n", "'\xc3\xa4', 5;" };
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		run(&m, session, shown[i], &h);
		CHECK_STR(h.result, "5");
	}
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		run(&m, session, hidden[i], &h);
		CHECK_STR(h.result, "");
	}
	finish(&m, 0);
}

TEST(a_cell_can_await)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session,
		"import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x / x\n"
		"y = await f(2)\nawait f(3)",
		&h);
	CHECK_EQ(h.outcome, KERNEL_OK);
	CHECK_STR(h.result, "1.0");
	run(&m, session, "await f(0)", &h);
	CHECK_STR(h.error, "ZeroDivisionError");
	CHECK(strstr(h.traceback, "return x / x") && !strstr(h.traceback, "run_until_complete"));
	ask_ms(session, "await asyncio.sleep(100)", 100, &h);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_INTERRUPTED);
	run(&m, session, "asyncio.run(f(1)) + await f(1)", &h); /* one loop within another */
	CHECK_STR(h.error, "RuntimeError");
	run(&m, session, "asyncio.run(f(1)) + y", &h);
	CHECK_STR(h.result, "2.0");
	finish(&m, 0);
}

TEST(an_interrupt_of_its_own_is_an_error_like_others)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);

	run(&m, session, "raise KeyboardInterrupt('mine')", &h);
	CHECK_EQ(h.outcome, KERNEL_ERROR);
	CHECK_STR(h.error, "KeyboardInterrupt");
	CHECK(strstr(h.traceback, "mine"));
	run(&m, session, "import os, signal; os.kill(os.getpid(), signal.SIGINT)", &h);
	CHECK_EQ(h.outcome, KERNEL_ERROR);
	finish(&m, 0);
}

/* It is judged by the execution with which it begins. What takes longer, and would have had to
 * wait for an admin, can not get around that. */
TEST(a_time_that_needs_an_approval_is_not_had_without)
{
	static char rule[] = "timeout_sec>30";
	static char *rules[] = { rule, NULL };
	SAMPLE(m);
	char **none = m.settings.approval_for;
	struct heard h;

	m.settings.approval_for = rules;
	sample_open(&m);
	struct session *session = sample_session(&m);
	ask_ms(session, "x = 1", 10000, &h);
	start(&m, 0);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.outcome, KERNEL_OK);
	ask_ms(session, "x", 30000, &h);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_STR(h.result, "1");
	ask_ms(session, "x", 30001, &h);
	CHECK_STR(h.code, "approval_required");
	ask(session, "x", &h);
	CHECK_STR(h.code, "approval_required");
	CHECK(kernel_restart(session));
	ask(session, "'x' in globals()", &h);
	stop(0, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, kernel_stage(session, &h) == KERNEL_AWAITS_APPROVAL);
	CHECK_EQ(run_approve(session->kernel->run, true, "root", NULL), 0);
	start(&m, 1);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_STR(h.result, "False");
	m.settings.approval_for = none;
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
	CHECK(h.wall_ns >= 200000000);
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
	CHECK_EQ(many[5].wall_ns, 0);
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

static void ask_limits(
	struct session *session, uint64_t cpu_milli, uint64_t memory_mb, struct heard *h)
{
	struct kernel_wish wish = { "1", 1, .limits = { cpu_milli, memory_mb } };

	*h = (struct heard){ 0 };
	kernel_execute(session, &wish, on_executed, h);
}

static void check_limits(struct sample *m, struct session *session, uint64_t memory_mb, bool is_met)
{
	struct heard h;

	ask_limits(session, 0, memory_mb, &h);
	SAMPLE_UNTIL(m, h.n);
	CHECK_EQ(h.has_other_limits, !is_met);
}

TEST(the_box_has_the_limits_that_the_first_asks_for)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct heard h;

	ask_limits(session, 250, 128, &h);
	start(&m, 0);
	SAMPLE_UNTIL(&m, h.n);
	CHECK_EQ(h.limits.cpu_milli, 250);
	CHECK_EQ(h.limits.memory_mb, 128);
	CHECK(!h.has_other_limits);
	check_limits(&m, session, 0, true);
	check_limits(&m, session, 128, true);
	check_limits(&m, session, 256, false);
	ask_limits(session, 500, 0, &h);
	SAMPLE_UNTIL(&m, h.n);
	CHECK(h.has_other_limits);
	finish(&m, 0);
}

TEST(more_than_is_allowed_is_lowered_and_met)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct heard h;

	ask_limits(session, 0, 1u << 20, &h);
	start(&m, 0);
	SAMPLE_UNTIL(&m, h.n);
	CHECK(h.limits.memory_mb < 1u << 20);
	CHECK(!h.has_other_limits);
	check_limits(&m, session, 1u << 20, true);
	check_limits(&m, session, h.limits.memory_mb, true);
	check_limits(&m, session, 64, false);
	finish(&m, 0);
}

TESTS(UNIT(variables_persist_and_the_last_expression_is_shown),
	UNIT(errors_are_told_whole_and_state_stays),
	UNIT(a_flood_is_cut_and_what_comes_late_is_told_next), UNIT(an_interrupt_keeps_state),
	UNIT(an_interrupt_before_the_code_is_read_is_kept),
	UNIT(an_interrupt_between_executions_is_not_kept),
	UNIT(no_frame_of_ours_is_told_of_an_interrupt),
	UNIT(a_value_that_is_a_picture_is_shown_as_one),
	UNIT(only_a_semicolon_behind_it_hides_the_last_expression), UNIT(a_cell_can_await),
	UNIT(an_interrupt_of_its_own_is_an_error_like_others),
	UNIT(a_time_that_needs_an_approval_is_not_had_without),
	UNIT(an_idle_one_holds_no_place_and_lives_as_long_as_its_session),
	UNIT(what_can_not_be_executed_is_refused), UNIT(a_user_has_so_many_and_no_more),
	UNIT(variables_of_the_process_are_there_for_one_execution),
	UNIT(the_box_has_the_limits_that_the_first_asks_for),
	UNIT(more_than_is_allowed_is_lowered_and_met))
