#include "core/run_dir.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/service_sample.h"

static bool is_there(struct sample *m, const char *dir, const char *id)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, id);
	return faccessat(m->service->data_fd, path, F_OK, 0) == 0;
}

static ino_t inode_of(int fd)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	return st.st_ino;
}

/* A run had it, and is over: what its id was, and which directory it is. */
static ino_t leave_spare(struct sample *m, char ret_id[UUID_SIZE + 1])
{
	struct stream_files files;

	uuid_make(ret_id);
	CHECK_EQ(run_dir_make(m->service, ret_id, &files), 0);
	ino_t inode = inode_of(files.dir_fd);
	CHECK(is_there(m, "meta/fresh", ret_id));
	run_dir_give_back(m->service, ret_id, &files);
	CHECK_EQ(files.dir_fd, -1);
	return inode;
}

TEST(one_that_is_given_back_serves_the_next)
{
	SAMPLE(m);
	sample_open(&m);
	char first[UUID_SIZE + 1];
	char second[UUID_SIZE + 1];
	struct stream_files files;

	ino_t inode = leave_spare(&m, first);
	uuid_make(second);
	CHECK_EQ(run_dir_make(m.service, second, &files), 0);
	CHECK_EQ(inode_of(files.dir_fd), inode);
	CHECK(is_there(&m, "meta/fresh", second));
	CHECK(!is_there(&m, "meta/fresh", first));
	CHECK_EQ(run_dir_keep(m.service, "alice", second), 0);
	CHECK(is_there(&m, "alice/runs", second));
	CHECK(!is_there(&m, "meta/fresh", second));
	CHECK_EQ(run_dir_keep(m.service, "alice", second), -ENOENT);
	stream_files_close(&files);
	sample_remove(&m);
}

/* Somebody removed it by hand: another is made. */
TEST(a_spare_one_that_is_gone_is_not_missed)
{
	SAMPLE(m);
	sample_open(&m);
	char first[UUID_SIZE + 1];
	char second[UUID_SIZE + 1];
	struct stream_files files;

	(void)leave_spare(&m, first);
	run_dir_drop(m.service, first);
	uuid_make(second);
	CHECK_EQ(run_dir_make(m.service, second, &files), 0);
	CHECK(is_there(&m, "meta/fresh", second));
	CHECK_EQ(m.service->spares.n, 0);
	stream_files_close(&files);
	sample_remove(&m);
}

TEST(no_more_than_so_many_are_spare)
{
	SAMPLE(m);
	sample_open(&m);
	char ids[RUN_DIR_SPARES_MAX + 2][UUID_SIZE + 1];
	struct stream_files files[RUN_DIR_SPARES_MAX + 2];

	fd_raise_limit();
	size_t part = fd_count_spare() / RUN_DIR_FDS;
	size_t most = part < RUN_DIR_SPARES_MAX ? part : RUN_DIR_SPARES_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		uuid_make(ids[i]);
		CHECK_EQ(run_dir_make(m.service, ids[i], &files[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		run_dir_give_back(m.service, ids[i], &files[i]);
	CHECK_EQ(m.service->spares.n, most);
	CHECK(is_there(&m, "meta/fresh", ids[most - 1]));
	CHECK(!is_there(&m, "meta/fresh", ids[most]));
	CHECK(!is_there(&m, "meta/fresh", ids[most + 1]));
	CHECK_EQ(files[most].dir_fd, -1);
	run_dir_fini(m.service);
	CHECK(!is_there(&m, "meta/fresh", ids[0]));
	sample_remove(&m);
}

/* Who may open few has them for something better. */
TEST(with_few_descriptors_fewer_are_spare)
{
	SAMPLE(m);
	sample_open(&m);
	struct rlimit before;
	char ids[4][UUID_SIZE + 1];
	struct stream_files files[4];

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 192, before.rlim_max }), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		uuid_make(ids[i]);
		CHECK_EQ(run_dir_make(m.service, ids[i], &files[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		run_dir_give_back(m.service, ids[i], &files[i]);
	CHECK_EQ(m.service->spares.n, 2);
	CHECK(!is_there(&m, "meta/fresh", ids[2]) && !is_there(&m, "meta/fresh", ids[3]));
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	sample_remove(&m);
}

TEST(those_that_a_predecessor_left_are_removed)
{
	SAMPLE(m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	struct stream_files files;

	uuid_make(id);
	CHECK_EQ(run_dir_make(m.service, id, &files), 0);
	stream_files_close(&files);
	run_dir_clear(m.service);
	CHECK(!is_there(&m, "meta/fresh", id));
	sample_remove(&m);
}

/* --- which runs have one --- */

static void execute(struct sample *m, const char *output, struct run_row *ret)
{
	char id[UUID_SIZE + 1];
	size_t n = sample_host.n_jobs;

	memcpy(id, sample_run(m, NULL)->row.id, sizeof(id));
	CHECK(is_there(m, "meta/fresh", id));
	job_started(sample_job(n));
	job_running(sample_job(n));
	job_writes(sample_job(n), CHANNEL_STDOUT, output);
	job_ends(sample_job(n), REASON_EXIT_CODE_0, 0);
	sample_await_end(m, id, ret);
}

TEST(a_short_run_is_all_in_its_row)
{
	SAMPLE(m);
	sample_open(&m);
	CLEANUP(free_row) struct run_row first = { 0 };
	CLEANUP(free_row) struct run_row second = { 0 };

	execute(&m, "one\n", &first);
	CHECK(first.frames != NULL);
	CHECK(!is_there(&m, "alice/runs", first.id));
	execute(&m, "two\n", &second);
	CHECK(!is_there(&m, "meta/fresh", first.id)); /* the second had it */
	AUTO_FREE char *frames = sample_frames(&m, "alice", first.id);
	CHECK(sample_in_order(frames, "\"start\"", "one", "\"event\":\"end\"", NULL));
	AUTO_FREE char *others = sample_frames(&m, "alice", second.id);
	CHECK(sample_in_order(others, "\"start\"", "two", "\"event\":\"end\"", NULL));
	CHECK(strstr(others, "one") == NULL);
	sample_remove(&m);
}

TEST(one_that_printed_much_keeps_its_directory)
{
	SAMPLE(m);
	sample_open(&m);
	CLEANUP(free_row) struct run_row row = { 0 };
	char output[4000];

	memset(output, 'x', sizeof(output) - 1);
	output[sizeof(output) - 1] = '\0';
	execute(&m, output, &row);
	CHECK(row.frames == NULL);
	CHECK(is_there(&m, "alice/runs", row.id));
	CHECK(!is_there(&m, "meta/fresh", row.id));
	AUTO_FREE char *frames = sample_frames(&m, "alice", row.id);
	CHECK(sample_in_order(frames, "\"start\"", "xxxx", "\"event\":\"end\"", NULL));
	sample_remove(&m);
}

/* Somebody reads while it ends: he has all of it, and nobody else gets the files. */
TEST(files_that_are_read_go_with_their_reader)
{
	SAMPLE(m);
	sample_open(&m);
	CLEANUP(free_row) struct run_row row = { 0 };
	char id[UUID_SIZE + 1];
	const struct run *run = sample_run(&m, NULL);
	struct cursor *c = cursor_open(run->stream, 0, NULL, NULL);

	memcpy(id, run->row.id, sizeof(id));
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "text");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK(row.frames != NULL);
	CHECK_EQ(m.service->spares.n, 0);
	CHECK(!is_there(&m, "meta/fresh", id));
	size_t n = 0;
	for (struct shared *f; (f = cursor_next(c)); shared_unref(f))
		n++;
	CHECK_EQ(n, 6); /* three phases, the start, the text, the end */
	CHECK(cursor_is_done(c));
	cursor_close(c);
	sample_remove(&m);
}

struct reader {
	struct run_waiter waiter;
	char *output;
};

static void on_over(struct run_waiter *w, struct run *run)
{
	struct reader *reader = (struct reader *)w;
	uint64_t total = 0;
	size_t size = 0;

	CHECK_EQ(stream_read_output(run->stream, FRAME_STDOUT, 100, &reader->output, &size, &total),
		0);
}

/* In a session they are told when all is stored. */
TEST(who_waits_reads_the_output_before_the_files_are_given_back)
{
	SAMPLE(m);
	sample_open(&m);
	struct reader reader = { .waiter.over = on_over };
	char body[128];

	(void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"command\":[\"true\"]}",
		sample_session(&m)->row.id);
	run_wait(sample_run(&m, body), &reader.waiter);
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "text");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	CHECK_STR(reader.output, "text");
	free(reader.output);
	CHECK_EQ(m.service->spares.n, 1);
	sample_remove(&m);
}

TESTS(UNIT(who_waits_reads_the_output_before_the_files_are_given_back),
	UNIT(one_that_is_given_back_serves_the_next), UNIT(a_spare_one_that_is_gone_is_not_missed),
	UNIT(no_more_than_so_many_are_spare), UNIT(with_few_descriptors_fewer_are_spare),
	UNIT(those_that_a_predecessor_left_are_removed), UNIT(a_short_run_is_all_in_its_row),
	UNIT(one_that_printed_much_keeps_its_directory),
	UNIT(files_that_are_read_go_with_their_reader))
