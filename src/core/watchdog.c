#include "core/watchdog.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/doing.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"

#define BEAT_MS   500
#define NS_PER_MS UINT64_C(1000000)
#define STALL_NS  (WATCHDOG_STALL_MS * NS_PER_MS)

#define NOBODY_KNOWS "unknown: the process was stopped, or got no processor"

struct watchdog {
	watchdog_cb *stalled;
	void *ctx;
	uv_timer_t beat;
	_Atomic uint64_t beaten_ns;
	_Atomic(const char *) seen; /* what the loop was at when it was found standing, or NULL */
	char wchan_path[64];        /* where the kernel says in which of its functions it waits */
	uv_thread_t thread;
	uv_mutex_t lock;
	uv_cond_t wake;
	bool is_ending; /* under the lock */
};

/* --- the thread --- */

/* "0" when the loop's thread does not sleep in the kernel. */
static void read_wchan(const struct watchdog *w, char *ret, size_t size)
{
	FILE *f = fopen(w->wchan_path, "re");
	size_t n = f ? fread(ret, 1, size - 1, f) : 0;

	ret[n] = '\0';
	if (f)
		(void)fclose(f);
}

static void bark(struct watchdog *w, uint64_t ns)
{
	const char *step = doing_what();
	char wchan[64];

	if (!step)
		step = "something without a name";
	atomic_store(&w->seen, step);
	read_wchan(w, wchan, sizeof(wchan));
	log_warn(
		"event=stall loop=server step='%s' wchan='%s': it has stood still for %llu ms, and "
		"nobody is served",
		step, wchan, (unsigned long long)(ns / NS_PER_MS));
}

/* Once for each time. When this thread did not run either, it was not the loop's fault. */
static void watch(void *arg)
{
	struct watchdog *w = arg;
	uint64_t told = 0;

	uv_mutex_lock(&w->lock);
	while (!w->is_ending) {
		uint64_t before = clock_monotonic_ns();
		(void)uv_cond_timedwait(&w->wake, &w->lock, BEAT_MS / 2 * NS_PER_MS);
		uint64_t now = clock_monotonic_ns();
		uint64_t beat = atomic_load(&w->beaten_ns);

		if (now - before > STALL_NS / 2 || beat > now || now - beat <= STALL_NS ||
			beat == told)
			continue;
		told = beat;
		bark(w, now - beat);
	}
	uv_mutex_unlock(&w->lock);
}

/* --- the loop --- */

static void on_beat(uv_timer_t *timer)
{
	struct watchdog *w = timer->data;
	uint64_t now = clock_monotonic_ns();
	uint64_t ms = (now - atomic_exchange(&w->beaten_ns, now)) / NS_PER_MS;
	const char *step = atomic_exchange(&w->seen, NULL);

	if (ms <= WATCHDOG_STALL_MS)
		return;
	if (!step)
		step = NOBODY_KNOWS;
	log_warn("event=stalled loop=server step='%s' ms=%llu: nobody was served meanwhile", step,
		(unsigned long long)ms);
	w->stalled(w->ctx, ms, step);
}

static int start_thread(struct watchdog *w, struct err *err)
{
	(void)uv_mutex_init(&w->lock);
	(void)uv_cond_init(&w->wake);
	int r = uv_thread_create(&w->thread, watch, w);

	if (r == 0)
		return 0;
	uv_cond_destroy(&w->wake);
	uv_mutex_destroy(&w->lock);
	return err_set(err, r, "start the watchdog's thread: %s", strerror(-r));
}

int watchdog_start(
	uv_loop_t *loop, watchdog_cb *stalled, void *ctx, struct watchdog **ret, struct err *err)
{
	struct watchdog *w = xnew(struct watchdog);

	w->stalled = stalled;
	w->ctx = ctx;
	w->beaten_ns = clock_monotonic_ns();
	(void)snprintf(w->wchan_path, sizeof(w->wchan_path), "/proc/self/task/%ld/wchan",
		syscall(SYS_gettid));
	int r = start_thread(w, err);
	if (r < 0) {
		free(w);
		return r;
	}
	(void)uv_timer_init(loop, &w->beat);
	w->beat.data = w;
	(void)uv_timer_start(&w->beat, on_beat, BEAT_MS, BEAT_MS);
	uv_unref((uv_handle_t *)&w->beat);
	*ret = w;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void watchdog_close(struct watchdog *w)
{
	if (!w)
		return;
	uv_mutex_lock(&w->lock);
	w->is_ending = true;
	uv_cond_signal(&w->wake);
	uv_mutex_unlock(&w->lock);
	(void)uv_thread_join(&w->thread);
	uv_cond_destroy(&w->wake);
	uv_mutex_destroy(&w->lock);
	uv_close((uv_handle_t *)&w->beat, on_closed);
}
