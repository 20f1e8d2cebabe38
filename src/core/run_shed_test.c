#include "base/json.h"
#include "core/run.h"
#include "core/service_sample.h"

#define LARGE (100u << 10)

/* One who sends a file of 100 kB, with some that must still be known while it waits. */
static struct run *large_run(struct sample *m)
{
	AUTO_FREE char *content = xcalloc(1, LARGE + 1);

	memset(content, 'A', LARGE);
	AUTO_JSON *json = json_pack("{s:s,s:[s],s:[{s:s,s:s}],s:s,s:[s],s:{s:s}}", "base_image",
		"host", "command", "cat", "files", "path", "a", "content_b64", content, "stdin",
		"text", "capture_patterns", "*.txt", "labels", "k", "v");
	AUTO_FREE char *text = json_dumps(json, 0);
	struct run *run = sample_run(m, text);

	sample_settle(m);
	return run;
}

static void check_is_shed(const struct run *run)
{
	CHECK(run->is_shed);
	CHECK(run->row.request == NULL && run->files == NULL);
	CHECK_EQ(run->n_files, 0);
	CHECK(!run->request.command && !run->request.files && !run->request.input);
	CHECK(json_object_get(run->request.body, "files") == NULL);
	CHECK_EQ(json_array_size(run->request.capture_patterns), 1);
}

static void check_is_whole(const struct run *run)
{
	CHECK(!run->is_shed);
	CHECK_EQ(run->n_files, 1);
	CHECK_EQ(run->files[0].size, LARGE / 4 * 3);
	CHECK_STR(run->request.input, "text");
	CHECK_STR(json_string_value(json_array_get(run->request.command, 0)), "cat");
	CHECK(strlen(run->row.request) > LARGE);
}

static void end_job(size_t i)
{
	job_started(sample_job(i));
	job_running(sample_job(i));
	job_ends(sample_job(i), REASON_EXIT_CODE_0, 0);
}

/* The one run there may be goes on: the next one waits. */
static void open_full(struct sample *m)
{
	m->settings.max_concurrent_runs = 1;
	sample_open(m);
	(void)sample_run(m, NULL);
}

TEST(what_waits_is_in_the_store_alone_until_its_turn)
{
	SAMPLE(m);
	open_full(&m);
	struct run *run = large_run(&m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	check_is_shed(run);
	CHECK_EQ(sample_stored(&m, id, &row), 0);
	CHECK(strlen(row.request) > LARGE);
	free_row(&row);
	end_job(0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	check_is_whole(run);
	CHECK(sample_job(1)->takes_files);
	CHECK_STR(run->row.labels, "{\"k\":\"v\"}");
	CHECK(run_cancel(run));
	sample_remove(&m);
}

TEST(what_is_small_is_held)
{
	SAMPLE(m);
	open_full(&m);
	struct run *run = sample_run(&m, NULL);

	sample_settle(&m);
	CHECK(!run->is_shed && run->row.request && run->request.command);
	sample_remove(&m);
}

TEST(what_begins_at_once_is_held)
{
	SAMPLE(m);
	sample_open(&m);
	check_is_whole(large_run(&m));
	sample_remove(&m);
}

TEST(one_that_is_canceled_while_it_is_read_again_ends)
{
	SAMPLE(m);
	open_full(&m);
	struct run *run = large_run(&m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	end_job(0);
	SAMPLE_UNTIL(&m, run->holds_slot);
	CHECK(run_cancel(run));
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "canceled_by_user");
	CHECK(row.request == NULL);
	CHECK_EQ(sample_host.n_jobs, 1);
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_remove(&m);
}

TEST(one_that_waits_again_is_let_go_of_again)
{
	SAMPLE(m);
	open_full(&m);
	struct run *run = large_run(&m);

	end_job(0);
	SAMPLE_UNTIL(&m, run->holds_slot);
	sample_down(); /* while it is read */
	SAMPLE_UNTIL(&m, run->waiting.user && run->is_shed);
	check_is_shed(run);
	sample_up(NULL, 0, NULL, 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	check_is_whole(run);
	sample_remove(&m);
}

static void require_approval(struct sample *m)
{
	static char rule[] = "all";
	static char *rules[] = { rule, NULL };

	m->settings.approval_for = rules;
}

TEST(one_that_is_approved_is_read_again)
{
	SAMPLE(m);
	char **none = m.settings.approval_for;
	require_approval(&m);
	sample_open(&m);
	struct run *run = large_run(&m);

	check_is_shed(run);
	sample_down(); /* that a keeper comes and goes is nothing to it */
	sample_up(NULL, 0, NULL, 0);
	check_is_shed(run);
	CHECK_EQ(run_approve(run, true, "root", NULL), 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	check_is_whole(run);
	CHECK_EQ(m.service->queue.n_held, 0);
	m.settings.approval_for = none;
	sample_remove(&m);
}

TEST(one_of_a_predecessors_is_let_go_of_and_read_again)
{
	SAMPLE(m);
	char **none = m.settings.approval_for;
	require_approval(&m);
	sample_use_sqlite(&m);
	sample_open(&m);
	(void)large_run(&m);
	sample_restart(&m);
	sample_up(NULL, 0, NULL, 0);
	check_is_shed(m.service->runs);
	CHECK_EQ(m.service->queue.n_held, 1);
	sample_restart(&m);
	CHECK_EQ(run_approve(m.service->runs, true, "root", NULL),
		0); /* before the keeper is there */
	sample_settle(&m);
	sample_up(NULL, 0, NULL, 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	check_is_whole(m.service->runs);
	m.settings.approval_for = none;
	sample_remove(&m);
}

TESTS(UNIT(what_waits_is_in_the_store_alone_until_its_turn), UNIT(what_is_small_is_held),
	UNIT(what_begins_at_once_is_held), UNIT(one_that_is_canceled_while_it_is_read_again_ends),
	UNIT(one_that_waits_again_is_let_go_of_again), UNIT(one_that_is_approved_is_read_again),
	UNIT(one_of_a_predecessors_is_let_go_of_and_read_again))
