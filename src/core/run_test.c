#include "core/run.h"

#include "core/service_sample.h"
#include "ipc/cur.h"

static const char with_files[] = "{\"base_image\":\"host\",\"command\":[\"cat\",\"a\"],"
				 "\"files\":[{\"path\":\"a\",\"content_b64\":\"aGVsbG8=\"}]}";

/* --- one run, from asking to its stored end --- */

TEST(a_run_goes_through_its_phases_to_a_stored_end)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	struct job *j = sample_job(0);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	CHECK_STR(j->argv, "true");
	CHECK_STR(run->row.phase, "starting");
	job_started(j);
	CHECK(j->deaf); /* nobody will type */
	job_running(j);
	CHECK_STR(run->row.phase, "running");
	CHECK(run->row.started_at != NULL);
	job_writes(j, CHANNEL_STDOUT, "forty-two\n");
	job_writes(j, CHANNEL_STDERR, "oops\n");
	job_ends(j, REASON_EXIT_CODE_0, 0);
	CHECK(!j->is_released);
	sample_await_end(&m, id, &row);
	CHECK(j->is_released);
	CHECK_STR(row.phase, "completed");
	CHECK_STR(row.reason_code, "exit_code_0");
	CHECK_EQ(row.exit_code, 0);
	CHECK_EQ(row.signal, STORE_NULL);
	CHECK_EQ(row.log_bytes, 15);
	CHECK_EQ(row.cpu_us, 1500000);
	CHECK(row.request == NULL); /* code is not kept */
	CHECK(strstr(row.usage, "\"wall_time_sec\":2.5") != NULL);
	CHECK(strstr(row.usage, "\"not_enforced\":[\"landlock\"]") != NULL);
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(sample_in_order(frames, "\"event\":\"start\"", "\"event\":\"end\"", NULL));
	CHECK(sample_in_order(frames, "\"event\":\"start\"", "forty-two", NULL));
	CHECK(sample_in_order(frames, "forty-two", "\"event\":\"end\"", NULL));
	CHECK(sample_in_order(frames, "oops", "\"reason\":\"exit_code_0\"", NULL));
	CHECK_EQ(m.service->n_runs, 0);
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_remove(&m);
}

/* What its box says of its files is there for whoever waits for its end. */

struct waiting {
	struct run_waiter waiter; /* first */
	unsigned n;
	bool has_listing;
	char path[16];
};

static void on_listed_over(struct run_waiter *w, struct run *run)
{
	struct waiting *waiting = (struct waiting *)w;

	waiting->n++;
	waiting->has_listing = run->has_listing;
	if (run->listing.n)
		(void)snprintf(waiting->path, sizeof(waiting->path), "%s", run->listing.at[0].path);
}

/* Play a run that lists, whose box says `size` bytes of it. */
static struct waiting play_listing(struct sample *m, const void *data, size_t size)
{
	struct identity who = sample_who("alice");
	struct request request;
	struct sample_answer answer = { 0 };
	struct waiting w = { .waiter = { .over = on_listed_over } };
	size_t n = sample_host.n_jobs;

	sample_parse(SAMPLE_BODY, REQUEST_RUN, &request);
	struct run_wish wish = { .request = &request, .who = &who, .source = "rest" };
	wish.lists = true;
	run_create(m->service, &wish, sample_on_created, sample_on_replayed, &answer);
	request_fini(&request);
	SAMPLE_UNTIL(m, answer.n);
	run_wait(answer.run, &w.waiter);
	struct job *j = sample_job(n);
	CHECK(j->lists);
	job_started(j);
	job_running(j);
	CHECK_EQ(fd_write_full(j->ends[CHANNEL_LISTING], data, size), 0);
	job_ends(j, REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(m, w.n);
	return w;
}

TEST(a_run_that_lists_tells_who_waits_for_it)
{
	SAMPLE(m);
	sample_open(&m);
	struct inventory l = { 0 };
	struct inventory_entry e = { .kind = INVENTORY_FILE, .path = (char *)"plot.png" };
	CLEANUP(put_fini) struct put p;

	CHECK_EQ(inventory_add(&l, &e), 0);
	put_init(&p, 100);
	inventory_put(&l, &p);
	struct waiting w = play_listing(&m, p.data, p.size);
	CHECK(w.has_listing);
	CHECK_STR(w.path, "plot.png");
	w = play_listing(&m, p.data, p.size - 1);
	CHECK(!w.has_listing);
	w = play_listing(&m, "", 0);
	CHECK(!w.has_listing);
	inventory_fini(&l);
	sample_remove(&m);
}

/* The fourth call of the store is the commit of the end: it fails, and is tried again. */
TEST(the_result_is_released_only_when_the_end_is_stored)
{
	SAMPLE(m);
	m.settings.store_sync_full = true;
	(void)snprintf(m.store, sizeof(m.store), "fault:4:memory:");
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	struct job *j = sample_job(0);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row before = { 0 };
	CLEANUP(free_row) struct run_row after = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	job_started(j);
	job_running(j);
	job_ends(j, REASON_NONZERO_EXIT, 3);
	SAMPLE_UNTIL(&m, run->n_tries == 1);
	CHECK(!j->is_released);
	CHECK_EQ(sample_stored(&m, id, &before), 0);
	CHECK_STR(before.phase, "starting");
	sample_await_end(&m, id, &after);
	CHECK(j->is_released);
	CHECK_STR(after.reason_code, "nonzero_exit");
	CHECK_EQ(after.exit_code, 3);
	sample_remove(&m);
}

/* ... and when it never can be, the keeper has it for another server. */
TEST(a_result_whose_end_can_not_be_stored_stays_with_the_keeper)
{
	SAMPLE(m);
	m.settings.store_sync_full = true;
	(void)snprintf(m.store, sizeof(m.store),
		"fault:4:fault:5:fault:6:fault:7:fault:8:fault:9:memory:");
	sample_open(&m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK(!sample_job(0)->is_released);
	CHECK_STR(row.phase, "starting");
	CHECK(row.request != NULL);
	sample_remove(&m);
}

TEST(an_end_that_comes_before_running_is_an_end)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	struct job *j = sample_job(0);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	job_started(j);
	job_writes(j, CHANNEL_STDOUT, "quick");
	job_ends(j, REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "completed");
	CHECK(row.started_at != NULL); /* as the result says */
	CHECK_EQ(row.log_bytes, 5);
	sample_remove(&m);
}

TEST(a_refused_run_fails_with_the_keepers_reason_and_at_once)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };
	uint64_t since = clock_monotonic_ns();

	memcpy(id, run->row.id, sizeof(id));
	job_refused(sample_job(0), REASON_PROVISION_FAILED, -ENOSPC, "no room for a box");
	sample_await_end(&m, id, &row);
	CHECK(clock_monotonic_ns() - since < UINT64_C(2000000000)); /* no output is waited for */
	CHECK_STR(row.phase, "failed");
	CHECK_STR(row.reason_code, "provision_failed");
	CHECK_STR(row.message, "no room for a box");
	CHECK_EQ(row.exit_code, STORE_NULL);
	CHECK(sample_job(0)->is_released);
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(strstr(frames, "\"exit_code\":null,\"reason\":\"provision_failed\"") != NULL);
	sample_remove(&m);
}

TEST(a_lost_run_is_never_called_completed)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "so far");
	sample_down();
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "failed");
	CHECK_STR(row.reason_code, "infrastructure_error");
	CHECK_EQ(row.log_bytes, 6); /* what it said before is kept */
	sample_remove(&m);
}

TEST(an_image_that_is_not_there_fails_the_run)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, "{\"base_image\":\"nothing:1\",\"command\":[\"true\"]}");
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "failed");
	CHECK_STR(row.reason_code, "image_pull_failed");
	CHECK(row.request == NULL);
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_remove(&m);
}

TEST(what_a_keeper_can_not_be_told_fails_the_run)
{
	static const struct {
		int code;
		const char *reason;
	} cases[] = { { -E2BIG, "provision_failed" }, { -EPIPE, "infrastructure_error" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		SAMPLE(m);
		CLEANUP(free_row) struct run_row row = { 0 };
		char id[UUID_SIZE + 1];

		sample_open(&m);
		sample_host.refusal = cases[i].code;
		memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
		sample_await_end(&m, id, &row);
		CHECK_STR(row.reason_code, cases[i].reason);
		CHECK_EQ(m.service->queue.n_active, 0);
		sample_remove(&m);
	}
}

TEST(inline_files_go_in)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, with_files);
	struct job *j = sample_job(0);
	char id[UUID_SIZE + 1];
	char data[4096];
	size_t n = 0;
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	CHECK(j->takes_files);
	job_started(j);
	CHECK_EQ(fd_set_nonblock(j->ends[CHANNEL_FILES], true), 0);
	for (ssize_t got = -1; got != 0;) {
		got = read(j->ends[CHANNEL_FILES], data + n, sizeof(data) - n);
		n += got > 0 ? (size_t)got : 0;
		sample_turn(&m);
	}
	CHECK(memmem(data, n, "hello", 5) != NULL);
	job_running(j);
	job_ends(j, REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "completed");
	sample_remove(&m);
}

/* The box hangs up while its files are being written: its result says why. */
TEST(a_run_is_not_over_before_its_thread_is)
{
	SAMPLE(m);
	sample_open(&m);
	AUTO_FREE char *big = xcalloc(1, 1 << 20);

	memset(big, 'A', 900 << 10);
	AUTO_JSON *json = json_pack("{s:s,s:[s],s:[{s:s,s:s}]}", "base_image", "host", "command",
		"cat", "files", "path", "a", "content_b64", big);
	AUTO_FREE char *text = json_dumps(json, 0);
	struct run *run = sample_run(&m, text);
	struct job *j = sample_job(0);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	job_started(j);
	struct result r = job_result(j, REASON_PROVISION_FAILED, -1);
	int held = take_fd(&j->ends[CHANNEL_FILES]); /* full, and nobody reads */
	job_ends_with(j, &r);
	sample_settle(&m);
	CHECK(run_find(m.service, id, NULL) != NULL);
	(void)close(held);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "provision_failed");
	sample_remove(&m);
}

TEST(output_that_does_not_end_is_given_up)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	struct job *j = sample_job(0);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	job_started(j);
	job_running(j);
	job_writes(j, CHANNEL_STDOUT, "last words");
	AUTO_FD held = take_fd(&j->ends[CHANNEL_STDOUT]);
	job_ends(j, REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK(held >= 0);
	CHECK_EQ(row.log_bytes, 10);
	CHECK_STR(row.phase, "completed");
	sample_remove(&m);
}

/* --- canceling --- */

static void check_canceled(struct sample *m, const char *id)
{
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_await_end(m, id, &row);
	CHECK_STR(row.phase, "killed");
	CHECK_STR(row.reason_code, "canceled_by_user");
	CHECK_STR(row.message, "canceled_by_user");
	AUTO_FREE char *frames = sample_frames(m, "alice", id);
	CHECK(strstr(frames, "\"canceled\":true") != NULL);
}

/* --- printing too much --- */

#define LIMITED "{\"base_image\":\"host\",\"command\":[\"yes\"],\"max_output_bytes\":5}"

static struct job *print_too_much(struct sample *m, char id[UUID_SIZE + 1])
{
	memcpy(id, sample_run(m, LIMITED)->row.id, UUID_SIZE + 1);
	struct job *j = sample_job(0);

	job_started(j);
	job_running(j);
	job_writes(j, CHANNEL_STDOUT, "y\ny\n");
	sample_settle(m);
	CHECK_EQ(j->n_cancels, 0);
	job_writes(j, CHANNEL_STDERR, "y\n");
	SAMPLE_UNTIL(m, j->n_cancels == 1);
	return j;
}

TEST(a_run_that_prints_too_much_is_ended_and_says_so)
{
	SAMPLE(m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	struct job *j = print_too_much(&m, id);
	job_ends(j, REASON_CANCELED_BY_USER, -1);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "killed");
	CHECK_STR(row.reason_code, "output_limit_exceeded");
	CHECK_STR(row.message, "output_limit_exceeded");
	CHECK_EQ(row.log_bytes, 5);
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(sample_in_order(frames, "log_cap", "output_limit_exceeded", NULL));
	CHECK(strstr(frames, "canceled") == NULL);
	sample_remove(&m);
}

TEST(one_that_ended_by_itself_before_that_has_its_own_reason)
{
	SAMPLE(m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	struct job *j = print_too_much(&m, id);
	job_ends(j, REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "completed");
	CHECK_STR(row.reason_code, "exit_code_0");
	sample_remove(&m);
}

TEST(a_run_is_canceled_while_it_waits)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	struct run *first = sample_run(&m, NULL);
	struct run *second = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];

	memcpy(id, second->row.id, sizeof(id));
	CHECK_STR(second->row.phase, "queued");
	CHECK(run_cancel(second));
	CHECK(!run_cancel(second));
	check_canceled(&m, id);
	CHECK_EQ(sample_host.n_jobs, 1); /* it never began */
	CHECK_EQ(m.service->queue.n_waiting, 0);
	CHECK(run_find(m.service, first->row.id, NULL) == first);
	sample_remove(&m);
}

TEST(a_run_is_canceled_while_its_turn_is_being_stored)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	(void)sample_run(&m, NULL);
	struct run *second = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];

	memcpy(id, second->row.id, sizeof(id));
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	CHECK(second->holds_slot && !second->job); /* that is the moment */
	CHECK(run_cancel(second));
	check_canceled(&m, id);
	CHECK_EQ(sample_host.n_jobs, 1);
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_remove(&m);
}

TEST(a_run_is_canceled_while_it_starts_and_while_it_runs)
{
	for (int runs = 0; runs < 2; runs++) {
		SAMPLE(m);
		sample_open(&m);
		struct run *run = sample_run(&m, NULL);
		struct job *j = sample_job(0);
		char id[UUID_SIZE + 1];

		memcpy(id, run->row.id, sizeof(id));
		job_started(j);
		if (runs)
			job_running(j);
		CHECK(run_cancel(run));
		CHECK(!run_cancel(run));
		CHECK_EQ(j->n_cancels, 1);
		sample_settle(&m);
		CHECK(run_find(m.service, id, NULL) == run); /* the keeper says when it is dead */
		job_ends(j, REASON_CANCELED_BY_USER, -1);
		check_canceled(&m, id);
		sample_remove(&m);
	}
}

static unsigned n_over;

static void on_over(struct run_waiter *w, struct run *run)
{
	(void)w;
	CHECK_STR(run->row.phase, "completed");
	n_over++;
}

TEST(whoever_waits_hears_of_the_end_once)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	struct run_waiter stays = { .over = on_over };
	struct run_waiter leaves = { .over = on_over };
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	n_over = 0;
	memcpy(id, run->row.id, sizeof(id));
	run_wait(run, &stays);
	run_wait(run, &leaves);
	run_unwait(run, &leaves);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	CHECK_EQ(n_over, 0);
	sample_await_end(&m, id, &row);
	CHECK_EQ(n_over, 1);
	sample_remove(&m);
}

/* --- finding --- */

static struct run_row got;
static int got_status;

static void on_got(void *ctx, const struct run_row *row, struct problem *problem)
{
	++*(unsigned *)ctx;
	got_status = problem->status;
	if (row)
		row_copy(&run_table, &got, row);
}

TEST(a_run_is_found_by_its_owner_live_or_stored)
{
	SAMPLE(m);
	sample_open(&m);
	struct identity alice = sample_who("alice");
	struct identity bob = sample_who("bob");
	struct identity root = { .user_id = "root", .admin = true };
	struct run *run = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	unsigned n = 0;
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	CHECK(run_find(m.service, id, &alice) == run);
	CHECK(run_find(m.service, id, &root) == run);
	CHECK(run_find(m.service, id, &bob) == NULL);
	run_get(m.service, id, &bob, on_got, &n);
	CHECK_EQ(n, 1);
	CHECK_EQ(got_status, 404);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	run_get(m.service, id, &bob, on_got, &n);
	SAMPLE_UNTIL(&m, n == 2);
	CHECK_EQ(got_status, 404);
	run_get(m.service, id, &alice, on_got, &n);
	SAMPLE_UNTIL(&m, n == 3);
	CHECK_EQ(got_status, 0);
	CHECK_STR(got.id, id);
	row_fini(&run_table, &got);
	sample_remove(&m);
}

TESTS(UNIT(a_run_that_lists_tells_who_waits_for_it),
	UNIT(a_run_goes_through_its_phases_to_a_stored_end),
	UNIT(the_result_is_released_only_when_the_end_is_stored),
	UNIT(a_result_whose_end_can_not_be_stored_stays_with_the_keeper),
	UNIT(an_end_that_comes_before_running_is_an_end),
	UNIT(a_refused_run_fails_with_the_keepers_reason_and_at_once),
	UNIT(a_lost_run_is_never_called_completed), UNIT(an_image_that_is_not_there_fails_the_run),
	UNIT(what_a_keeper_can_not_be_told_fails_the_run), UNIT(inline_files_go_in),
	UNIT(a_run_is_not_over_before_its_thread_is), UNIT(output_that_does_not_end_is_given_up),
	UNIT(a_run_that_prints_too_much_is_ended_and_says_so),
	UNIT(one_that_ended_by_itself_before_that_has_its_own_reason),
	UNIT(a_run_is_canceled_while_it_waits),
	UNIT(a_run_is_canceled_while_its_turn_is_being_stored),
	UNIT(a_run_is_canceled_while_it_starts_and_while_it_runs),
	UNIT(whoever_waits_hears_of_the_end_once), UNIT(a_run_is_found_by_its_owner_live_or_stored))
