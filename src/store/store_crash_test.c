/* A process that commits is killed at any moment, again and again. Every batch that it was
 * told of as done must be there afterwards, and no batch may be there in part. */
#include <signal.h>
#include <sys/wait.h>

#include "lib/harness.h"
#include "lib/random.h"

#define ROUNDS    50
#define IN_FLIGHT 8

struct writer {
	struct harness *h;
	int report_fd;
	uint32_t next;
};

struct ticket {
	struct writer *writer;
	uint32_t number;
};

static void commit_next(struct writer *w);

static void on_committed(void *ctx, int r)
{
	struct ticket *t = ctx;
	struct writer *w = t->writer;

	if (r < 0 || fd_write_full(w->report_fd, &t->number, sizeof(t->number)) < 0)
		_exit(1);
	free(t);
	commit_next(w);
}

/* Three rows in three tables belong together. */
static void commit_next(struct writer *w)
{
	struct ticket *t = xnew(struct ticket);
	struct store_batch *b = store_batch_new(w->h->store);
	char id[16];

	*t = (struct ticket){ w, w->next++ };
	(void)snprintf(id, sizeof(id), "%08x", t->number);
	struct run_row run = harness_run(id);
	struct session_row session = { .id = id, .cpu_limit = 1 };
	struct usage_row usage = { .user_id = T("u") };
	run.user_id = T("u");
	run.phase = T("queued");
	run.request = T("{\"command\": [\"python3\", \"-c\", \"print(1)\"]}");
	store_batch_insert(b, &run_table, &run);
	store_batch_add(b, &usage_table, &usage, "runs_count", 1);
	store_batch_insert(b, &session_table, &session);
	store_commit(b, on_committed, t);
}

static _Noreturn void write_until_killed(struct harness *h, int report_fd, uint32_t first)
{
	struct writer w = { h, report_fd, first };

	harness_open(h);
	for (int i = 0; i < IN_FLIGHT; i++)
		commit_next(&w);
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
	_exit(1);
}

/* Let a child write for a random while; the highest number it reported, or `first` - 1. */
static uint32_t run_child(struct harness *h, uint32_t first, uint64_t *state)
{
	uint32_t last = first - 1;
	uint32_t number = 0;
	int read_fd = -1;
	int write_fd = -1;
	int status = 0;

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		write_until_killed(h, write_fd, first);
	(void)close(write_fd);
	/* Some die while they open the store, most in the middle of their work. */
	if (random_below(state, 8) > 0) {
		CHECK_EQ(fd_read_full(read_fd, &number, sizeof(number)), sizeof(number));
		last = number;
	}
	(void)usleep((useconds_t)random_below(state, 12000));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	while (fd_read_full(read_fd, &number, sizeof(number)) == sizeof(number)) {
		CHECK_EQ(number, last + 1);
		last = number;
	}
	(void)close(read_fd);
	return last;
}

static uint64_t count(struct harness *h, const struct table *t)
{
	struct query q = { .table = t, .limit = 1, .count = true };
	ANSWER(a, t);

	CHECK_EQ(harness_list(h, &q, &a), 0);
	return a.total;
}

/* How many batches are there; each of them is a row in both tables and one of the count. */
static uint32_t check_whole(struct harness *h)
{
	struct usage_row usage = { .user_id = T("u") };
	uint64_t n = count(h, &run_table);
	ANSWER(a, &usage_table);

	CHECK_EQ(count(h, &session_table), n);
	int r = harness_get(h, &usage_table, &usage, &a);
	CHECK(r == 0 || (r == -ENOENT && n == 0));
	if (r == 0)
		CHECK_EQ(((struct usage_row *)a.rows.data)->runs_count, n);
	return (uint32_t)n;
}

TEST(a_kill_loses_nothing_and_halves_nothing)
{
	CLEANUP(harness_freep) struct harness *h = harness_new("sqlite:@/store.db");
	uint64_t random = 1;
	uint32_t next = 0;

	for (int i = 0; i < ROUNDS; i++) {
		harness_close(h);
		uint32_t last = run_child(h, next, &random);
		harness_open(h);
		uint32_t n = check_whole(h);
		/* Numbers were committed in order, so n of them are 0 ... n - 1; those which
		 * were reported are among them, and at most all in flight beside. */
		CHECK(n >= last + 1);
		CHECK(n <= last + 1 + 2 * IN_FLIGHT);
		next = n;
	}
	CHECK(next > ROUNDS);
	print_message("%u batches in %d lives\n", next, ROUNDS);
}

TESTS(UNIT(a_kill_loses_nothing_and_halves_nothing))
