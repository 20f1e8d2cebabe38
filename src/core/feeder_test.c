#include "core/feeder.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/fd.h"
#include "base/str.h"
#include "lib/test.h"

struct work {
	uv_thread_t loop_thread;
	bool was_elsewhere;
	uv_sem_t *gate; /* waits for it, if there is one */
	bool floods;
	int answer;
	unsigned n_begun;
	unsigned n_done;
	int r;
	char text[256];
};

static int do_work(void *ctx, int fd, struct err *err)
{
	struct work *w = ctx;
	uv_thread_t self = uv_thread_self();
	char chunk[4096] = { 0 };

	w->n_begun++;
	w->was_elsewhere = !uv_thread_equal(&self, &w->loop_thread);
	if (w->gate)
		uv_sem_wait(w->gate);
	while (w->floods && send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) > 0)
		;
	if (w->floods)
		return err_errno(err, "send");
	if (fd >= 0 && fd_write_full(fd, "done", 4) < 0)
		return err_errno(err, "write");
	return w->answer < 0 ? err_set(err, w->answer, "it did not work") : w->answer;
}

static void on_done(void *ctx, int r, const struct err *err)
{
	struct work *w = ctx;

	w->n_done++;
	w->r = r;
	(void)snprintf(w->text, sizeof(w->text), "%s", err->text);
}

TEST(work_is_done_elsewhere_and_told_here)
{
	struct work w = { .loop_thread = uv_thread_self() };
	uv_loop_t loop;
	int from, to;
	char buf[8] = "";

	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(fd_pipe(&from, &to), 0);
	feeder_start(&loop, to, do_work, on_done, &w);
	CHECK_EQ(w.n_done, 0);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK_EQ(w.n_done, 1);
	CHECK_EQ(w.r, 0);
	CHECK(w.was_elsewhere);
	CHECK_EQ(fd_read_full(from, buf, sizeof(buf)), 4); /* and then the end: it is closed */
	CHECK_STR(buf, "done");
	(void)close(from);
	CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(a_failure_comes_with_its_words)
{
	struct work w = { .loop_thread = uv_thread_self(), .answer = -E2BIG };
	uv_loop_t loop;

	CHECK_EQ(uv_loop_init(&loop), 0);
	feeder_start(&loop, -1, do_work, on_done, &w);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	CHECK_EQ(w.r, -E2BIG);
	CHECK_STR(w.text, "it did not work");
	CHECK_EQ(uv_loop_close(&loop), 0);
}

/* More than the pool has threads: some are under way, one into a socket that nobody reads, the
 * last ones have not begun. */
TEST(whoever_ends_has_all_of_them_told_before)
{
	enum { N = 40 };
	struct work all[N];
	uv_loop_t loop, other;
	uv_sem_t gate;
	int pair[2];
	struct work stays = { .loop_thread = uv_thread_self() };

	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(uv_loop_init(&other), 0);
	CHECK_EQ(uv_sem_init(&gate, 0), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < N; i++) {
		all[i] = (struct work){ .loop_thread = uv_thread_self() };
		if (i == 0)
			all[i].floods = true;
		else if (i < 3)
			all[i].gate = &gate;
		feeder_start(&loop, i == 0 ? pair[0] : -1, do_work, on_done, &all[i]);
	}
	feeder_start(&other, -1, do_work, on_done, &stays);
	uv_sem_post(&gate);
	uv_sem_post(&gate);
	feeder_finish_all(&loop);
	for (int i = 0; i < N; i++) {
		CHECK_EQ(all[i].n_done, 1);
		CHECK_EQ(all[i].r == -ECANCELED, all[i].n_begun == 0);
	}
	CHECK(all[0].r < 0);
	CHECK_EQ(stays.n_done, 0);
	feeder_finish_all(&loop);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	(void)uv_run(&other, UV_RUN_DEFAULT);
	for (int i = 0; i < N; i++)
		CHECK_EQ(all[i].n_done, 1); /* and nothing is told again */
	CHECK_EQ(stays.n_done, 1);
	(void)close(pair[1]);
	uv_sem_destroy(&gate);
	CHECK_EQ(uv_loop_close(&loop), 0);
	CHECK_EQ(uv_loop_close(&other), 0);
}

TESTS(UNIT(work_is_done_elsewhere_and_told_here), UNIT(a_failure_comes_with_its_words),
	UNIT(whoever_ends_has_all_of_them_told_before))
