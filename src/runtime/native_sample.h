/* For tests of the native runtime: a keeper that the test plays by hand, at the other end of a
 * real socket, and jobs that note what they hear. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "runtime/runtime.h"

#define PATIENCE_NS (UINT64_C(10) * 1000000000u)
#define RUN_A       "0123456789abcdef0123456789abcdef"
#define RUN_B       "fedcba9876543210fedcba9876543210"
#define RUN_C       "cccccccccccccccccccccccccccccccc"
#define INSTANCE    "0011223344556677"

struct stage {
	struct scratch dir;
	uv_loop_t loop;
	int listener;
	int fd; /* of the connection */
	const char *instance;
	uint8_t *buffer;
	struct runtime_host *host;
	unsigned n_up, n_down;
	bool is_mute; /* pings are not answered */
	unsigned n_silent, n_heard;
	uint64_t heard_ms;
	char heard_step[64];
	char run[RUN_ID_SIZE + 1]; /* the first that it was told of */
	size_t n_runs, n_workspaces;
};

static inline void turn(struct stage *s)
{
	(void)uv_run(&s->loop, UV_RUN_NOWAIT);
	(void)usleep(200);
}

#define UNTIL(s, cond)                                                                             \
	do {                                                                                       \
		uint64_t until_ = clock_monotonic_ns() + PATIENCE_NS;                              \
		while (!(cond)) {                                                                  \
			CHECK(clock_monotonic_ns() < until_);                                      \
			turn(s);                                                                   \
		}                                                                                  \
	} while (0)

static inline void on_up(void *ctx, const char (*runs)[RUN_ID_SIZE + 1], size_t n_runs,
	const char (*workspaces)[WORKSPACE_ID_SIZE + 1], size_t n_workspaces)
{
	struct stage *s = ctx;

	(void)workspaces;
	s->n_up++;
	s->n_runs = n_runs;
	s->n_workspaces = n_workspaces;
	if (n_runs)
		memcpy(s->run, runs[0], sizeof(s->run));
}

static inline void on_down(void *ctx)
{
	((struct stage *)ctx)->n_down++;
}

static inline void on_silent(void *ctx, uint64_t since_ns)
{
	CHECK(clock_monotonic_ns() - since_ns > RUNTIME_SILENT_NS);
	((struct stage *)ctx)->n_silent++;
}

static inline void on_heard(void *ctx, uint64_t ms, const char *step)
{
	struct stage *s = ctx;

	s->n_heard++;
	s->heard_ms = ms;
	(void)snprintf(s->heard_step, sizeof(s->heard_step), "%s", step);
}

static inline void listen_at(struct stage *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/keeper.sock", s->dir.path);
	(void)unlink(address.sun_path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(s->listener >= 0);
	CHECK_EQ(bind(s->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(s->listener, 4), 0);
}

static inline void stage_make(struct stage *s)
{
	struct err err = { 0 };

	*s = (struct stage){ .listener = -1, .fd = -1, .instance = INSTANCE };
	log_set_level(LOG_LEVEL_ERROR);
	scratch_make(&s->dir);
	s->buffer = xcalloc(1, FRAME_SIZE_MAX);
	CHECK_EQ(uv_loop_init(&s->loop), 0);
	struct runtime_options options = { .root = s->dir.path };
	struct runtime_listener listener = {
		.up = on_up, .down = on_down, .silent = on_silent, .heard = on_heard, .ctx = s
	};
	CHECK_EQ(runtime_native.open(&s->loop, &options, &listener, &s->host, &err), 0);
}

static inline void stage_remove(struct stage *s)
{
	runtime_native.close(s->host);
	UNTIL(s, !uv_loop_alive(&s->loop));
	CHECK_EQ(uv_loop_close(&s->loop), 0);
	close_fdp(&s->listener);
	close_fdp(&s->fd);
	free(s->buffer);
	scratch_remove(&s->dir);
}

/* --- the keeper's side --- */

static inline void take_connection(struct stage *s)
{
	UNTIL(s, (s->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
}

static inline void send_put(struct stage *s, uint32_t type, struct put *p)
{
	CHECK_EQ(put_end(p), 0);
	CHECK_EQ(frame_send(s->fd, type, p, NULL, 0), 0);
	put_fini(p);
}

static inline void say_pong(struct stage *s, uint64_t n_stalls, uint64_t ms, const char *step)
{
	struct put p;

	put_init(&p, 100);
	put_u64(&p, n_stalls);
	put_u64(&p, ms);
	put_str(&p, step);
	send_put(s, MESSAGE_PONG, &p);
}

/* What the server said, as frame_recv() has it; a ping is answered, and nothing to tell of. */
static inline int take_message(struct stage *s, struct frame *ret)
{
	int r = frame_recv(s->fd, s->buffer, ret);

	if (r != 1 || ret->type != MESSAGE_PING)
		return r;
	if (!s->is_mute)
		say_pong(s, 0, 0, "");
	return -EAGAIN;
}

/* The next message, which must be of this type; its text, if it begins with one. */
static inline void expect(struct stage *s, uint32_t type, char *text, size_t size)
{
	struct frame f;
	struct cur c;
	int r = -EAGAIN;

	UNTIL(s, (r = take_message(s, &f)) != -EAGAIN);
	CHECK_EQ(r, 1);
	CHECK_EQ(f.type, type);
	CHECK_EQ(f.n_fds, 0);
	cur_init(&c, f.data, f.size);
	if (text)
		cur_str_into(&c, text, size);
	CHECK(!c.bad);
}

static inline void expect_id(struct stage *s, uint32_t type, const char *id)
{
	char text[64] = "";

	expect(s, type, text, sizeof(text));
	CHECK_STR(text, id);
}

static inline bool is_silent(struct stage *s)
{
	struct frame f;

	for (int i = 0; i < 20; i++)
		turn(s);
	return take_message(s, &f) == -EAGAIN;
}

static inline void send_welcome(struct stage *s, const char *instance)
{
	struct put p;

	put_init(&p, 100);
	put_u64(&p, 0x55);
	put_str(&p, instance);
	send_put(s, MESSAGE_WELCOME, &p);
}

static inline void send_ids(struct stage *s, uint32_t type, const char *id)
{
	struct put p;

	put_init(&p, 100);
	put_u32(&p, id != NULL);
	if (id)
		put_str(&p, id);
	if (id && type == MESSAGE_RUNS)
		put_u32(&p, RUN_RUNNING);
	send_put(s, type, &p);
}

/* From a connection to being up. */
static inline void greet(struct stage *s, const char *run, const char *workspace)
{
	unsigned before = s->n_up;

	take_connection(s);
	expect(s, MESSAGE_HELLO, NULL, 0);
	send_welcome(s, s->instance);
	expect(s, MESSAGE_WARM, NULL, 0);
	expect(s, MESSAGE_LIST, NULL, 0);
	expect(s, MESSAGE_LIST_WORKSPACES, NULL, 0);
	CHECK(!runtime_native.is_up(s->host));
	send_ids(s, MESSAGE_RUNS, run);
	send_ids(s, MESSAGE_WORKSPACES, workspace);
	UNTIL(s, s->n_up > before);
	CHECK(runtime_native.is_up(s->host));
}

static inline void say_started(
	struct stage *s, const char *id, uint32_t mask, const int *fds, size_t n)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, id);
	put_u32(&p, mask);
	CHECK_EQ(frame_send(s->fd, MESSAGE_STARTED, &p, fds, n), 0);
	put_fini(&p);
}

static inline void say_running(struct stage *s, const char *id)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, id);
	put_u64(&p, 1234567);
	send_put(s, MESSAGE_RUNNING, &p);
}

static inline void say_ended(struct stage *s, const char *id)
{
	struct result r = { .reason = REASON_NONZERO_EXIT, .exit_code = 3, .ended_ns = 5 };
	struct put p;

	memcpy(r.id, id, sizeof(r.id));
	put_init(&p, 1000);
	result_put(&r, &p);
	send_put(s, MESSAGE_ENDED, &p);
}

static inline void say_refused(struct stage *s, const char *id, uint32_t error, uint32_t reason)
{
	struct put p;

	put_init(&p, 1000);
	put_str(&p, id);
	put_u32(&p, error);
	put_u32(&p, reason);
	put_str(&p, "because");
	send_put(s, MESSAGE_REFUSED, &p);
}

static inline void say_id(struct stage *s, uint32_t type, const char *id)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, id);
	send_put(s, type, &p);
}

/* --- the server's side --- */

struct heard {
	char words[64]; /* a letter for each */
	int fds[CHANNEL_COUNT];
	uint64_t started_ns;
	struct result result;
	enum reason reason;
	int code;
	struct job *job;
	bool releases; /* when it is over */
};

static inline void note(struct heard *h, char c)
{
	size_t n = strlen(h->words);

	CHECK(n + 1 < sizeof(h->words));
	h->words[n] = c;
	if (h->releases && strchr("ERL", c))
		runtime_native.release(TAKE(h->job));
}

static inline void on_started(void *ctx, int fds[CHANNEL_COUNT])
{
	struct heard *h = ctx;

	for (int i = 0; i < CHANNEL_COUNT; i++)
		h->fds[i] = take_fd(&fds[i]);
	note(h, 's');
}

static inline void on_running(void *ctx, uint64_t started_ns)
{
	((struct heard *)ctx)->started_ns = started_ns;
	note(ctx, 'r');
}

static inline void on_ended(void *ctx, const struct result *result)
{
	((struct heard *)ctx)->result = *result;
	note(ctx, 'E');
}

static inline void on_refused(void *ctx, enum reason reason, int code, const char *text)
{
	struct heard *h = ctx;

	CHECK_STR(text, "because");
	h->reason = reason;
	h->code = code;
	note(h, 'R');
}

static inline void on_lost(void *ctx)
{
	note(ctx, 'L');
}

static const struct job_events events = {
	.started = on_started,
	.running = on_running,
	.ended = on_ended,
	.refused = on_refused,
	.lost = on_lost,
};

static inline int start(struct stage *s, const char *id, struct heard *h)
{
	static char word[] = "true";
	static char *argv[] = { word, NULL };
	static char *none[] = { NULL };
	struct spec spec;

	*h = (struct heard){ .fds = { -1, -1, -1, -1, -1, -1 } };
	spec_init(&spec);
	memcpy(spec.id, id, sizeof(spec.id));
	spec.argv = argv;
	spec.env = spec.globs = none;
	spec.cwd = word;
	return runtime_native.start(s->host, &spec, &events, h, &h->job);
}

static inline void close_heard(struct heard *h)
{
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&h->fds[i]);
}

struct made {
	unsigned n;
	int code;
};

static inline void on_made(void *ctx, int code, const char *text)
{
	struct made *m = ctx;

	CHECK(text != NULL);
	m->n++;
	m->code = code;
}
