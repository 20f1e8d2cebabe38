/* What is logged, and what is not; that a traced store works is in store_test.c. */
#include <fcntl.h>

#include "base/log.h"
#include "lib/harness.h"

/* All that `h` logs while it is used and closed. */
static char *use_and_read(struct harness *h)
{
	struct run_row run = harness_run("run-1");
	struct session_row session = { .id = T("session-1"), .env = T("{\"K\": \"secret\"}") };
	struct idempotency_row idem = {
		.endpoint = T("runs"),
		.user_key = T("ann"),
		.key = T("key-1"),
		.response_body = T("secret"),
	};
	struct query q = {
		.table = &run_table,
		.filters = { { "request", FILTER_CONTAINS, "secret", 0 } },
		.n_filters = 1,
	};
	struct sum_query sum = { .table = &run_table, .by = "phase" };
	struct store_batch *b = store_batch_new(h->store);
	struct answer ignored[4] = { { .rows.table = &run_table } };
	char *text = NULL;
	size_t size = 0;

	run.request = T("secret");
	store_batch_put(b, &run_table, &run);
	store_batch_insert(b, &session_table, &session);
	store_batch_delete(b, &idempotency_table, &idem);
	store_commit(b, on_done, &ignored[1]);
	run.id = T("no\"body");
	store_get(h->store, &run_table, &run, on_row, &ignored[2]);
	store_list(h->store, &q, on_rows, &ignored[0]);
	store_sum(h->store, &sum, on_sums, &ignored[3]);
	int log_fd = openat(h->dir.fd, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int stderr_fd = dup(STDERR_FILENO);
	CHECK(dup2(log_fd, STDERR_FILENO) >= 0);
	log_set_level(LOG_LEVEL_DEBUG);
	harness_close(h);
	log_set_level(LOG_LEVEL_WARN);
	CHECK(dup2(stderr_fd, STDERR_FILENO) >= 0);
	(void)close(stderr_fd);
	CHECK_EQ(lseek(log_fd, 0, SEEK_SET), 0);
	CHECK_EQ(fd_read_all(log_fd, 1 << 16, &text, &size), 0);
	(void)close(log_fd);
	answer_fini(&ignored[0]);
	return text;
}

TEST(keys_and_results_are_logged_and_contents_are_not)
{
	static const char *const lines[] = {
		"store put table=sandbox_runs key=run-1 r=0",
		"store insert table=sandbox_sessions key=session-1 r=0",
		"store delete table=sandbox_idempotency key=runs, ann, key-1 r=0",
		"store commit changes=3 r=0",
		"store get table=sandbox_runs key=no\\\"body r=-2",
		"store list table=sandbox_runs filters=request found=1 r=0",
		"store sum table=sandbox_runs filters= found=1 r=0",
	};
	CLEANUP(harness_freep) struct harness *h = harness_new("trace:memory:");
	AUTO_FREE char *text = use_and_read(h);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		if (!strstr(text, lines[i]))
			fail_msg("'%s' is not in: %s", lines[i], text);
	}
	CHECK(strstr(text, "secret") == NULL);
}

TESTS(UNIT(keys_and_results_are_logged_and_contents_are_not))
