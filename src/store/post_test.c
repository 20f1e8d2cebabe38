#include "store/post.h"

#include <pthread.h>
#include <uv.h>

#include "base/str.h"
#include "lib/test.h"
#include "store/store_backend.h"

#define N 1000

static struct store store;

static struct operation *make(store_done_cb *done, void *ctx)
{
	struct operation *op = xnew(struct operation);

	op->store = &store;
	op->kind = OPERATION_COMMIT;
	op->commit.batch = store_batch_new(&store);
	op->commit.done = done;
	op->ctx = ctx;
	return op;
}

static void count(void *ctx, int r)
{
	CHECK_EQ(r, 0);
	++*(int *)ctx;
}

static void send_one(struct post *p, struct operation *op)
{
	struct operations one = { 0 };

	operations_add(&one, op);
	post_send(p, &one);
}

struct sender {
	struct post *post;
	struct operation *ops[N];
};

static void *send_all(void *ctx)
{
	struct sender *s = ctx;

	for (int i = 0; i < N; i++)
		send_one(s->post, s->ops[i]);
	return NULL;
}

static void close_loop(uv_loop_t *loop)
{
	(void)uv_run(loop, UV_RUN_DEFAULT);
	CHECK_EQ(uv_loop_close(loop), 0);
}

TEST(another_thread_may_send)
{
	struct sender sender;
	pthread_t thread;
	uv_loop_t loop;
	int n = 0;

	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(post_open(&loop, &sender.post), 0);
	for (int i = 0; i < N; i++) {
		sender.ops[i] = make(count, &n);
		post_expect(sender.post);
	}
	CHECK_EQ(pthread_create(&thread, NULL, send_all, &sender), 0);
	CHECK_EQ(uv_run(&loop, UV_RUN_DEFAULT), 0);
	CHECK_EQ(n, N);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	post_close(sender.post);
	close_loop(&loop);
}

TEST(closing_answers_what_was_sent)
{
	struct post *p = NULL;
	uv_loop_t loop;
	int n = 0;

	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(post_open(&loop, &p), 0);
	CHECK_EQ(uv_loop_alive(&loop), 0);
	post_expect(p);
	CHECK(uv_loop_alive(&loop) != 0);
	send_one(p, make(count, &n));
	CHECK_EQ(n, 0);
	post_close(p);
	CHECK_EQ(n, 1);
	close_loop(&loop);
}

TESTS(UNIT(another_thread_may_send), UNIT(closing_answers_what_was_sent))
