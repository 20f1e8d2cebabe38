/* Processor time of executions, as it is counted for their user. */
#include "base/date.h"
#include "core/kernel_sample.h"

struct daily {
	bool is_told;
	int r;
	int64_t cpu_us;
};

static void on_daily(void *ctx, int r, const void *row)
{
	*(struct daily *)ctx =
		(struct daily){ true, r, r == 0 ? ((const struct daily_row *)row)->cpu_us : 0 };
}

static struct daily read_daily(struct sample *m)
{
	char day[DATE_DAY_SIZE + 1];
	struct daily_row key = { .user_id = (char *)"alice", .day = day };
	struct daily told = { 0 };

	date_format_day(clock_realtime_ns(), day);
	store_get(m->service->store, &daily_table, &key, on_daily, &told);
	SAMPLE_UNTIL(m, told.is_told);
	return told;
}

/* Processor time of alice's today. */
static int64_t counted(struct sample *m)
{
	struct daily told = read_daily(m);

	if (told.r < 0 && told.r != -ENOENT) /* it was this call that failed */
		told = read_daily(m);
	CHECK(told.r == 0 || told.r == -ENOENT);
	return told.cpu_us;
}

#define BURNS                                                                                      \
	"import time\nuntil = time.process_time() + 0.03\nwhile time.process_time() < until: pass"

/* The first of two executions was asked for. */
static void check_count(struct sample *m, struct session *session, struct heard *h)
{
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	start(m, 0);
	SAMPLE_UNTIL(m, h->n);
	sample_settle(m);
	run(m, session, BURNS, h);
	sample_settle(m);
	const struct run *it = m->service->runs;
	CHECK_EQ(counted(m), it->counted_cpu_us);
	memcpy(id, it->row.id, sizeof(id));
	stop(0, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(m, run_find(m->service, id, NULL) == NULL);
	if (sample_stored(m, id, &row) < 0) /* it was this call that failed */
		CHECK_EQ(sample_stored(m, id, &row), 0);
	CHECK_EQ(counted(m), row.cpu_us);
}

/* Two executions, while the store's nth call fails. True if they were executed. */
static bool count_with_fault(int n)
{
	SAMPLE(m);
	struct sample_answer a;
	struct heard h = { 0 };

	begin_with_fault(&m, n, &a);
	if (a.status == 0)
		ask(a.session, BURNS, &h);
	SAMPLE_UNTIL(&m, a.status || h.n || sample_host.n_jobs);
	bool is_executed = sample_host.n_jobs > 0;
	if (is_executed)
		check_count(&m, a.session, &h);
	sample_answer_fini(&a);
	sample_remove(&m);
	return is_executed;
}

/* Which would be given back to its user. */
TEST(time_that_could_not_be_stored_is_counted_later)
{
	unsigned n_executed = 0;

	for (int n = 3; n <= 12; n++)
		n_executed += count_with_fault(n);
	CHECK(n_executed >= 3);
}

TEST(an_idle_one_is_frozen_until_it_executes_again)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);
	struct job *j = sample_job(0);

	SAMPLE_UNTIL(&m, j->is_frozen);
	ask(session, "import time; time.sleep(0.2)", &h);
	SAMPLE_UNTIL(&m, !j->is_frozen);
	SAMPLE_UNTIL(&m, h.n);
	SAMPLE_UNTIL(&m, j->is_frozen);
	CHECK_EQ(j->n_usages, 0);
	finish(&m, 0);
}

/* It may have children that go on: its box's word counts, not its own. */
TEST(one_that_runs_while_it_is_idle_is_asked_for_its_processor_time)
{
	SAMPLE(m);
	struct heard h;

	m.settings.kernel_idle_runs = true;
	(void)begin(&m, &h);
	struct job *j = sample_job(0);
	SAMPLE_UNTIL(&m, j->n_usages == 1);
	CHECK(!j->is_frozen);
	j->events->used(j->ctx, 77000000, false);
	sample_settle(&m);
	CHECK_EQ(counted(&m), 77000000);
	j->events->used(j->ctx, 76000000, false);
	j->events->used(j->ctx, USAGE_UNKNOWN, false);
	sample_settle(&m);
	CHECK_EQ(counted(&m), 77000000);
	SAMPLE_UNTIL(&m, j->n_usages == 2); /* and is asked again after a while */
	finish(&m, 0);
}

/* Its box's init could not even say that it is dead. */
TEST(one_that_dies_while_it_is_frozen_is_thawed)
{
	SAMPLE(m);
	struct heard h;

	(void)begin(&m, &h);
	struct job *j = sample_job(0);
	SAMPLE_UNTIL(&m, j->is_frozen);
	(void)kill(j->pid, SIGKILL);
	SAMPLE_UNTIL(&m, !j->is_frozen);
	sample_settle(&m);
	CHECK_EQ(j->n_cancels, 0);
	finish(&m, 0);
}

/* Else it would run on, unseen. */
TEST(one_that_hangs_up_and_stays_is_ended)
{
	SAMPLE(m);
	struct heard h;
	struct session *session = begin(&m, &h);
	struct job *j = sample_job(0);

	run(&m, session,
		"import os, threading\n"
		"def hang_up():\n"
		"    os.closerange(3, 200)\n"
		"threading.Timer(0.2, hang_up).start()",
		&h);
	SAMPLE_UNTIL(&m, j->n_cancels == 1);
	finish(&m, 0);
}

TEST(what_was_not_executed_after_all_reserves_no_time)
{
	SAMPLE(m);
	struct heard h;

	m.settings.cpu_sec_per_day = 1000;
	struct session *session = begin(&m, &h);
	CHECK(!m.service->reserving);
	ask(session, "1", &h);
	kernel_cancel(session, &h);
	CHECK_EQ(h.n, 1);
	sample_settle(&m);
	CHECK(!m.service->reserving);
	finish(&m, 0);
}

TESTS(UNIT(time_that_could_not_be_stored_is_counted_later),
	UNIT(an_idle_one_is_frozen_until_it_executes_again),
	UNIT(one_that_runs_while_it_is_idle_is_asked_for_its_processor_time),
	UNIT(one_that_dies_while_it_is_frozen_is_thawed),
	UNIT(one_that_hangs_up_and_stays_is_ended),
	UNIT(what_was_not_executed_after_all_reserves_no_time))
