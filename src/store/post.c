#include "store/post.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <uv.h>

#include "base/doing.h"
#include "base/str.h"

struct post {
	uv_async_t async;
	pthread_mutex_t lock;
	struct operations sent; /* under the lock */

	/* Of the loop's thread alone. */
	struct operations ready;
	size_t n_pending;
};

static bool receive(struct post *p)
{
	pthread_mutex_lock(&p->lock);
	operations_move(&p->ready, &p->sent);
	pthread_mutex_unlock(&p->lock);
	return p->ready.first != NULL;
}

/* What is left stays in `p`, so that a callback which closes the post answers it. */
static void answer_ready(struct post *p)
{
	struct operation *op;

	while ((op = operations_take_first(&p->ready))) {
		if (--p->n_pending == 0)
			uv_unref((uv_handle_t *)&p->async);
		operation_answer(op);
	}
}

static void on_async(uv_async_t *async)
{
	struct post *p = async->data;

	const char *before = doing_begin("answers of the store");
	(void)receive(p);
	answer_ready(p);
	doing_end(before);
}

int post_open(uv_loop_t *loop, struct post **ret)
{
	struct post *p = xnew(struct post);
	int r = uv_async_init(loop, &p->async, on_async);

	if (r < 0) {
		free(p);
		return r;
	}
	p->async.data = p;
	uv_unref((uv_handle_t *)&p->async);
	(void)pthread_mutex_init(&p->lock, NULL);
	*ret = p;
	return 0;
}

void post_expect(struct post *p)
{
	if (p->n_pending++ == 0)
		uv_ref((uv_handle_t *)&p->async);
}

void post_send(struct post *p, struct operations *done)
{
	pthread_mutex_lock(&p->lock);
	operations_move(&p->sent, done);
	pthread_mutex_unlock(&p->lock);
	(void)uv_async_send(&p->async);
}

static void on_closed(uv_handle_t *handle)
{
	struct post *p = handle->data;

	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}

void post_close(struct post *p)
{
	while (receive(p))
		answer_ready(p);
	assert(p->n_pending == 0);
	uv_close((uv_handle_t *)&p->async, on_closed);
}
