/* Runs whose files are another's: short runs use them one after the other, and a loss of power
 * may leave what the one before wrote. */
#include "core/run_dir.h"
#include "core/service_sample.h"

static uint32_t boot = 1;

uint32_t __wrap_boot_tag(void);
uint32_t __wrap_boot_tag(void)
{
	return boot;
}

static struct stream *open_others(uv_loop_t *loop, int dir, const char *id)
{
	struct stream_options options = { .id = id, .log_cap = 1000 };
	struct stream *stream = NULL;
	struct err err = { 0 };

	CHECK_EQ(stream_open(loop, dir, &options, &stream, &err), 0);
	return stream;
}

static void close_others(uv_loop_t *loop, struct stream *stream)
{
	stream_unref(stream);
	(void)uv_run(loop, UV_RUN_DEFAULT);
}

/* In `dir`, as another run left them. */
static void write_others(int dir)
{
	static const char *const names[] = { "stdout", "stderr", "events", "index" };
	char id[UUID_SIZE + 1];
	uv_loop_t loop;

	uuid_make(id);
	CHECK_EQ(uv_loop_init(&loop), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlinkat(dir, names[i], 0);
	struct stream *stream = open_others(&loop, dir, id);
	CHECK_EQ(stream_event(stream, "start", "{\"of\":\"alice\"}"), 1);
	close_others(&loop, stream);
	scratch_write(dir, "stdout", "secret of alice\n");
	stream = open_others(&loop, dir, id);
	CHECK_EQ(stream_log_bytes(stream), 16);
	CHECK_EQ(stream_event(stream, "end", "{\"exit_code\":0,\"reason\":\"exit_code_0\"}"), 3);
	close_others(&loop, stream);
	CHECK_EQ(uv_loop_close(&loop), 0);
}

/* Bob's run goes on when the server ends; then its directory has what a run of alice's wrote. */
static void lose_power(struct sample *m, char ret_id[UUID_SIZE + 1])
{
	sample_use_sqlite(m);
	sample_open(m);
	memcpy(ret_id, sample_run_of(m, "bob", SAMPLE_BODY)->row.id, UUID_SIZE + 1);
	job_started(sample_job(0));
	job_running(sample_job(0));
	sample_settle(m);
	AUTO_FD dir = sample_fresh_dir(m, ret_id);
	sample_shut(m);
	sample_reset_host();
	write_others(dir);
	boot++;
}

static void check_nothing_of_alice(struct sample *m, const char *id)
{
	AUTO_FREE char *frames = sample_frames(m, "bob", id);

	CHECK(strstr(frames, "alice") == NULL && strstr(frames, "exit_code_0") == NULL);
	CHECK(sample_in_order(frames, "output_lost", "\"event\":\"end\"", NULL));
	CHECK(!sample_in_order(frames, "\"event\":\"end\"", "\"event\":\"end\"", NULL));
}

TEST(a_run_is_not_ended_by_what_another_left)
{
	SAMPLE(m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	lose_power(&m, id);
	sample_open_down(&m);
	memset(sample_host.instance, 'b', KEEPER_ID_SIZE); /* the keeper went with the power */
	sample_up(NULL, 0, NULL, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "infrastructure_error");
	CHECK_STR(row.phase, "failed");
	CHECK_EQ(row.exit_code, STORE_NULL);
	CHECK_EQ(row.log_bytes, 0);
	check_nothing_of_alice(&m, id);
	sample_remove(&m);
}

TEST(one_that_the_keeper_knows_ends_by_its_word)
{
	SAMPLE(m);
	char id[UUID_SIZE + 1];
	char hex[1][RUN_ID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	lose_power(&m, id);
	uuid_to_hex(id, hex[0]);
	sample_open_down(&m);
	sample_up((const char(*)[RUN_ID_SIZE + 1]) hex, 1, NULL, 0);
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_ends(sample_job(0), REASON_NONZERO_EXIT, 3);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "nonzero_exit");
	CHECK_EQ(row.exit_code, 3);
	check_nothing_of_alice(&m, id);
	sample_remove(&m);
}

/* It is over and its row is stored, but its directory has another's files. */
TEST(one_that_is_over_shows_nothing_of_another)
{
	SAMPLE(m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	char output[4000];
	CLEANUP(free_row) struct run_row row = { 0 };
	AUTO_FD dir = -1;

	memset(output, 'x', sizeof(output) - 1);
	output[sizeof(output) - 1] = '\0';
	memcpy(id, sample_run_of(&m, "bob", SAMPLE_BODY)->row.id, sizeof(id));
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, output);
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK(row.frames == NULL);
	CHECK_EQ(run_dir_open(m.service, "bob", id, false, &dir), 0);
	AUTO_FREE char *before = sample_frames(&m, "bob", id);
	CHECK(sample_in_order(before, "xxxx", "\"event\":\"end\"", NULL));
	write_others(dir);
	AUTO_FREE char *after = sample_frames(&m, "bob", id);
	CHECK_STR(after, "");
	sample_remove(&m);
}

TESTS(UNIT(a_run_is_not_ended_by_what_another_left),
	UNIT(one_that_the_keeper_knows_ends_by_its_word),
	UNIT(one_that_is_over_shows_nothing_of_another))
