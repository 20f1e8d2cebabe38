/* One database file, one connection, one thread. The loop's thread queues operations; the
 * worker takes all that wait, executes them in their order, and posts them back. Commits that
 * follow each other are one transaction, so that the cost of writing is shared, and are not
 * posted before it is over. The log is moved into the file and emptied when nobody waits, or
 * just moved when it has grown large all the same. */
#include "store/store_sqlite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "store/post.h"
#include "store/store_backend.h"

#define CHECKPOINT_IDLE_PAGES 256u  /* worth the effort after ... */
#define CHECKPOINT_IDLE_MS    200   /* ... such a pause, */
#define CHECKPOINT_REST_MS    2000  /* or of however few, for what rows held before, after this, */
#define CHECKPOINT_PAGES      8192u /* and due in any case: 16 MiB */

struct sqlite_store {
	struct store store;
	struct database *database; /* the worker's, while that runs */
	struct post *post;
	pthread_t worker;
	bool has_stopped; /* of the loop's thread */

	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct operations queue; /* under the lock, ... */
	bool is_urgent;          /* ... whether somebody waits for one of them ... */
	bool is_stopping;        /* ... and this */
};

static int (*const readers[OPERATION_KINDS])(struct database *d, struct operation *op) = {
	[OPERATION_GET] = sqlite_get,
	[OPERATION_LIST] = sqlite_list,
	[OPERATION_SUM] = sqlite_sum,
};

/* Take the commits from the front of `queue`. */
static struct operations take_commits(struct operations *queue)
{
	struct operations commits = { 0 };

	while (queue->first && queue->first->kind == OPERATION_COMMIT)
		operations_add(&commits, operations_take_first(queue));
	return commits;
}

static void run_reader(struct sqlite_store *s, struct operation *op)
{
	struct operations done = { 0 };

	if (op->r == 0)
		op->r = readers[op->kind](s->database, op);
	operations_add(&done, op);
	post_send(s->post, &done);
}

static void run_all(struct sqlite_store *s, struct operations *queue)
{
	while (queue->first) {
		struct operations commits = take_commits(queue);
		if (commits.first) {
			sqlite_write(s->database, &commits);
			post_send(s->post, &commits);
		} else {
			run_reader(s, operations_take_first(queue));
		}
		if (database_log_pages(s->database) >= CHECKPOINT_PAGES)
			database_checkpoint(s->database);
	}
}

static struct timespec after_ms(long ms)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* Wait for something to do, under the lock; false when a pause came first. */
static bool wait_for_work(struct sqlite_store *s)
{
	bool is_large = database_log_pages(s->database) >= CHECKPOINT_IDLE_PAGES;
	struct timespec deadline = after_ms(is_large ? CHECKPOINT_IDLE_MS : CHECKPOINT_REST_MS);
	int r = 0;

	while (!s->queue.first && !s->is_stopping && r == 0) {
		if (database_log_is_used(s->database))
			r = pthread_cond_timedwait(&s->wake, &s->lock, &deadline);
		else
			r = pthread_cond_wait(&s->wake, &s->lock);
	}
	return s->queue.first || s->is_stopping;
}

/* Under the lock: where nobody waits for what there is, see whether somebody comes. */
static void wait_for_company(struct sqlite_store *s)
{
	struct timespec deadline = after_ms(STORE_PATIENCE_MS);
	int r = 0;

	while (!s->is_urgent && !s->is_stopping && r == 0)
		r = pthread_cond_timedwait(&s->wake, &s->lock, &deadline);
}

/* All that waits, in `ret`; false when there is nothing and never will be. */
static bool take_all(struct sqlite_store *s, struct operations *ret)
{
	pthread_mutex_lock(&s->lock);
	while (!wait_for_work(s)) {
		pthread_mutex_unlock(&s->lock);
		database_empty_log(s->database);
		pthread_mutex_lock(&s->lock);
	}
	wait_for_company(s);
	s->is_urgent = false;
	operations_move(ret, &s->queue);
	pthread_mutex_unlock(&s->lock);
	return ret->first != NULL;
}

static void *work(void *ctx)
{
	struct sqlite_store *s = ctx;
	struct operations queue = { 0 };

	while (take_all(s, &queue))
		run_all(s, &queue);
	return NULL;
}

static void sqlite_submit(struct store *store, struct operation *op)
{
	struct sqlite_store *s = (struct sqlite_store *)store;
	struct operations one = { 0 };

	operations_add(&one, op);
	post_expect(s->post);
	if (s->has_stopped) {
		post_send(s->post, &one);
		return;
	}
	pthread_mutex_lock(&s->lock);
	bool wakes = !s->queue.first || (!op->is_patient && !s->is_urgent);
	s->is_urgent |= !op->is_patient;
	operations_move(&s->queue, &one);
	pthread_mutex_unlock(&s->lock);
	if (wakes)
		pthread_cond_signal(&s->wake);
}

/* Signals are the loop's. */
static int start_worker(struct sqlite_store *s)
{
	sigset_t all;
	sigset_t before;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&s->worker, NULL, work, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static void init_locks(struct sqlite_store *s)
{
	pthread_condattr_t attributes;

	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->wake, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

static void release(struct sqlite_store *s)
{
	if (s->post)
		post_close(s->post);
	database_close(s->database);
	(void)pthread_cond_destroy(&s->wake);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

static int sqlite_open(
	uv_loop_t *loop, const char *rest, bool full_sync, struct store **ret, struct err *err)
{
	if (!*rest)
		return err_set(err, -EINVAL, "'sqlite:' wants the path of a file");
	struct sqlite_store *s = xnew(struct sqlite_store);
	s->store.ops = &store_sqlite;
	init_locks(s);
	int r = database_open(rest, full_sync, &s->database, err);
	if (r == 0 && ((r = post_open(loop, &s->post)) < 0 || (r = start_worker(s)) < 0))
		(void)err_set(err, r, "cannot start the thread of the store");
	if (r < 0) {
		release(s);
		return r;
	}
	*ret = &s->store;
	return 0;
}

static void sqlite_free(struct store *store)
{
	struct sqlite_store *s = (struct sqlite_store *)store;

	pthread_mutex_lock(&s->lock);
	s->is_stopping = true;
	pthread_mutex_unlock(&s->lock);
	pthread_cond_signal(&s->wake);
	(void)pthread_join(s->worker, NULL);
	s->has_stopped = true;
	release(s);
}

const struct store_ops store_sqlite = {
	.name = "sqlite",
	.open = sqlite_open,
	.free = sqlite_free,
	.submit = sqlite_submit,
};
