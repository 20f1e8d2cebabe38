#include "core/watchdog.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/doing.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"

struct told {
	unsigned n;
	uint64_t ms;
	char step[64];
};

static void on_stalled(void *ctx, uint64_t ms, const char *step)
{
	struct told *t = ctx;

	t->n++;
	t->ms = ms;
	(void)snprintf(t->step, sizeof(t->step), "%s", step);
}

static void on_other(uv_timer_t *timer)
{
	(void)timer;
	CHECK(false);
}

static void turn_for(uv_loop_t *loop, uint64_t ms)
{
	uint64_t until = clock_monotonic_ns() + ms * 1000000;

	while (clock_monotonic_ns() < until) {
		(void)uv_run(loop, UV_RUN_NOWAIT);
		(void)usleep(1000);
	}
}

/* The log while `ms` pass on the loop's thread without a turn. */
static void block(const char *step, unsigned ms, char *ret_log, size_t size)
{
	struct scratch dir;
	char path[256];

	scratch_make(&dir);
	(void)snprintf(path, sizeof(path), "%s/log", dir.path);
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int stderr_fd = dup(2);
	CHECK(file >= 0 && stderr_fd >= 0 && dup2(file, 2) == 2);
	const char *before = doing_begin(step);
	(void)usleep(ms * 1000);
	doing_end(before);
	CHECK_EQ(dup2(stderr_fd, 2), 2);
	ssize_t n = pread(file, ret_log, size - 1, 0);
	CHECK(n >= 0);
	ret_log[n] = '\0';
	(void)close(file);
	(void)close(stderr_fd);
	scratch_remove(&dir);
}

TEST(a_loop_that_stands_still_is_told_of_meanwhile_and_afterwards)
{
	struct told told = { 0 };
	struct watchdog *w = NULL;
	struct err err = { 0 };
	char log[1024];
	uv_loop_t loop;
	uv_timer_t other;

	CHECK_EQ(uv_loop_init(&loop), 0);
	(void)uv_timer_init(&loop, &other); /* the watchdog alone keeps no loop alive */
	(void)uv_timer_start(&other, on_other, 3600000, 0);
	CHECK_EQ(watchdog_start(&loop, on_stalled, &told, &w, &err), 0);
	turn_for(&loop, 700);
	CHECK_EQ(told.n, 0);
	block("GET /slow", 3500, log, sizeof(log));
	CHECK(strstr(log, "step='GET /slow'") != NULL);
	CHECK(strstr(log, "nanosleep") != NULL); /* where the kernel has it */
	CHECK(strchr(log, '\n') == strrchr(log, '\n'));
	turn_for(&loop, 700);
	CHECK_EQ(told.n, 1);
	CHECK(told.ms > 2000);
	CHECK_STR(told.step, "GET /slow");
	turn_for(&loop, 700);
	CHECK_EQ(told.n, 1);
	watchdog_close(w);
	uv_close((uv_handle_t *)&other, NULL);
	CHECK_EQ(uv_run(&loop, UV_RUN_DEFAULT), 0);
	CHECK_EQ(uv_loop_close(&loop), 0);
}

TESTS(UNIT(a_loop_that_stands_still_is_told_of_meanwhile_and_afterwards))
