#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

/* The keeper is played by hand, at the other end of a real socket. */
struct stage {
	struct scratch dir;
	uv_loop_t loop;
	int listener;
	int fd; /* of the connection */
	const char *instance;
	uint8_t *buffer;
	struct runtime_host *host;
	unsigned n_up, n_down;
	char run[RUN_ID_SIZE + 1]; /* the first that it was told of */
	size_t n_runs, n_workspaces;
};

static void turn(struct stage *s)
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

static void on_up(void *ctx, const char (*runs)[RUN_ID_SIZE + 1], size_t n_runs,
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

static void on_down(void *ctx)
{
	((struct stage *)ctx)->n_down++;
}

static void listen_at(struct stage *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/keeper.sock", s->dir.path);
	(void)unlink(address.sun_path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(s->listener >= 0);
	CHECK_EQ(bind(s->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(s->listener, 4), 0);
}

static void stage_make(struct stage *s)
{
	struct err err = { 0 };

	*s = (struct stage){ .listener = -1, .fd = -1, .instance = INSTANCE };
	log_set_level(LOG_LEVEL_ERROR);
	scratch_make(&s->dir);
	s->buffer = xcalloc(1, FRAME_SIZE_MAX);
	CHECK_EQ(uv_loop_init(&s->loop), 0);
	struct runtime_options options = { .root = s->dir.path };
	struct runtime_listener listener = { .up = on_up, .down = on_down, .ctx = s };
	CHECK_EQ(runtime_native.open(&s->loop, &options, &listener, &s->host, &err), 0);
}

static void stage_remove(struct stage *s)
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

static void take_connection(struct stage *s)
{
	UNTIL(s, (s->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
}

/* The next message, which must be of this type; its text, if it begins with one. */
static void expect(struct stage *s, uint32_t type, char *text, size_t size)
{
	struct frame f;
	struct cur c;
	int r = -EAGAIN;

	UNTIL(s, (r = frame_recv(s->fd, s->buffer, &f)) != -EAGAIN);
	CHECK_EQ(r, 1);
	CHECK_EQ(f.type, type);
	CHECK_EQ(f.n_fds, 0);
	cur_init(&c, f.data, f.size);
	if (text)
		cur_str_into(&c, text, size);
	CHECK(!c.bad);
}

static void expect_id(struct stage *s, uint32_t type, const char *id)
{
	char text[64] = "";

	expect(s, type, text, sizeof(text));
	CHECK_STR(text, id);
}

static bool is_silent(struct stage *s)
{
	struct frame f;

	for (int i = 0; i < 20; i++)
		turn(s);
	return frame_recv(s->fd, s->buffer, &f) == -EAGAIN;
}

static void send_put(struct stage *s, uint32_t type, struct put *p)
{
	CHECK_EQ(put_end(p), 0);
	CHECK_EQ(frame_send(s->fd, type, p, NULL, 0), 0);
	put_fini(p);
}

static void send_welcome(struct stage *s, const char *instance)
{
	struct put p;

	put_init(&p, 100);
	put_u64(&p, 0x55);
	put_str(&p, instance);
	send_put(s, MESSAGE_WELCOME, &p);
}

static void send_ids(struct stage *s, uint32_t type, const char *id)
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
static void greet(struct stage *s, const char *run, const char *workspace)
{
	unsigned before = s->n_up;

	take_connection(s);
	expect(s, MESSAGE_HELLO, NULL, 0);
	send_welcome(s, s->instance);
	expect(s, MESSAGE_LIST, NULL, 0);
	expect(s, MESSAGE_LIST_WORKSPACES, NULL, 0);
	CHECK(!runtime_native.is_up(s->host));
	send_ids(s, MESSAGE_RUNS, run);
	send_ids(s, MESSAGE_WORKSPACES, workspace);
	UNTIL(s, s->n_up > before);
	CHECK(runtime_native.is_up(s->host));
}

static void say_started(struct stage *s, const char *id, uint32_t mask, const int *fds, size_t n)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, id);
	put_u32(&p, mask);
	CHECK_EQ(frame_send(s->fd, MESSAGE_STARTED, &p, fds, n), 0);
	put_fini(&p);
}

static void say_running(struct stage *s, const char *id)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, id);
	put_u64(&p, 1234567);
	send_put(s, MESSAGE_RUNNING, &p);
}

static void say_ended(struct stage *s, const char *id)
{
	struct result r = { .reason = REASON_NONZERO_EXIT, .exit_code = 3, .ended_ns = 5 };
	struct put p;

	memcpy(r.id, id, sizeof(r.id));
	put_init(&p, 1000);
	result_put(&r, &p);
	send_put(s, MESSAGE_ENDED, &p);
}

static void say_refused(struct stage *s, const char *id, uint32_t error, uint32_t reason)
{
	struct put p;

	put_init(&p, 1000);
	put_str(&p, id);
	put_u32(&p, error);
	put_u32(&p, reason);
	put_str(&p, "because");
	send_put(s, MESSAGE_REFUSED, &p);
}

static void say_id(struct stage *s, uint32_t type, const char *id)
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

static void note(struct heard *h, char c)
{
	size_t n = strlen(h->words);

	CHECK(n + 1 < sizeof(h->words));
	h->words[n] = c;
	if (h->releases && strchr("ERL", c))
		runtime_native.release(TAKE(h->job));
}

static void on_started(void *ctx, int fds[CHANNEL_COUNT])
{
	struct heard *h = ctx;

	for (int i = 0; i < CHANNEL_COUNT; i++)
		h->fds[i] = take_fd(&fds[i]);
	note(h, 's');
}

static void on_running(void *ctx, uint64_t started_ns)
{
	((struct heard *)ctx)->started_ns = started_ns;
	note(ctx, 'r');
}

static void on_ended(void *ctx, const struct result *result)
{
	((struct heard *)ctx)->result = *result;
	note(ctx, 'E');
}

static void on_refused(void *ctx, enum reason reason, int code, const char *text)
{
	struct heard *h = ctx;

	CHECK_STR(text, "because");
	h->reason = reason;
	h->code = code;
	note(h, 'R');
}

static void on_lost(void *ctx)
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

static int start(struct stage *s, const char *id, struct heard *h)
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

static void close_heard(struct heard *h)
{
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&h->fds[i]);
}

struct made {
	unsigned n;
	int code;
};

static void on_made(void *ctx, int code, const char *text)
{
	struct made *m = ctx;

	CHECK(text != NULL);
	m->n++;
	m->code = code;
}

/* --- --- */

TEST(it_is_up_when_the_keeper_has_told_what_it_holds)
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	CHECK(!runtime_native.is_up(s.host)); /* nobody listens yet */
	CHECK_EQ(start(&s, RUN_A, &h), -EAGAIN);
	listen_at(&s);
	greet(&s, RUN_A, RUN_B);
	CHECK_EQ(s.n_runs, 1);
	CHECK_EQ(s.n_workspaces, 1);
	CHECK_STR(s.run, RUN_A);
	CHECK_STR(runtime_native.instance(s.host), INSTANCE);
	CHECK_EQ(runtime_native.facets(s.host), 0x55);
	stage_remove(&s);
}

TEST(a_job_from_start_to_acknowledgement)
{
	struct stage s;
	struct heard h;
	int pipe_fds[2];
	size_t n_fds;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	n_fds = scratch_count_fds();
	say_started(&s, RUN_A, 1u << CHANNEL_STDOUT | 1u << CHANNEL_CAPTURE, pipe_fds, 2);
	UNTIL(&s, streq(h.words, "s"));
	CHECK(h.fds[CHANNEL_STDOUT] >= 0 && h.fds[CHANNEL_CAPTURE] >= 0);
	CHECK_EQ(h.fds[CHANNEL_STDIN], -1);
	CHECK_EQ(scratch_count_fds(), n_fds + 2);
	say_running(&s, RUN_A);
	UNTIL(&s, streq(h.words, "sr"));
	CHECK_EQ(h.started_ns, 1234567);
	runtime_native.close_stdin(h.job);
	expect_id(&s, MESSAGE_CLOSE_STDIN, RUN_A);
	runtime_native.cancel(h.job);
	expect_id(&s, MESSAGE_CANCEL, RUN_A);
	say_ended(&s, RUN_A);
	UNTIL(&s, streq(h.words, "srE"));
	CHECK_EQ(h.result.exit_code, 3);
	runtime_native.cancel(h.job); /* too late, and not sent */
	CHECK(is_silent(&s));         /* nothing is acknowledged before that is asked for */
	runtime_native.release(h.job);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	close_heard(&h);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	stage_remove(&s);
}

TEST(a_job_that_is_refused_hears_nothing_else)
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	h.releases = true;
	say_refused(&s, RUN_A, ENOSPC, REASON_PROVISION_FAILED);
	UNTIL(&s, streq(h.words, "R"));
	CHECK_EQ(h.code, -ENOSPC);
	CHECK_EQ(h.reason, REASON_PROVISION_FAILED);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	say_running(&s, RUN_A);
	CHECK(is_silent(&s));
	CHECK_STR(h.words, "R");
	stage_remove(&s);
}

/* What is released while it runs is killed; its end finds nobody, and is acknowledged. */
TEST(a_job_that_is_released_early_is_canceled_and_acknowledged)
{
	struct stage s;
	struct heard h;
	int pipe_fds[2];

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	runtime_native.release(h.job);
	expect_id(&s, MESSAGE_CANCEL, RUN_A);
	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	size_t n_fds = scratch_count_fds();
	say_started(&s, RUN_A, 3, pipe_fds, 2);
	say_running(&s, RUN_A);
	say_ended(&s, RUN_A);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	CHECK_STR(h.words, "");
	CHECK_EQ(scratch_count_fds(), n_fds); /* nobody took those */
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	stage_remove(&s);
}

TEST(runs_from_before_are_adopted_or_discarded)
{
	struct stage s;
	struct heard h = { .fds = { -1, -1, -1, -1, -1, -1 } };

	stage_make(&s);
	listen_at(&s);
	greet(&s, RUN_A, NULL);
	CHECK_EQ(runtime_native.adopt(s.host, RUN_A, &events, &h, &h.job), 0);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	say_started(&s, RUN_A, 0, NULL, 0);
	say_running(&s, RUN_A);
	say_ended(&s, RUN_A);
	UNTIL(&s, streq(h.words, "srE"));
	runtime_native.release(h.job);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	runtime_native.discard(s.host, RUN_B);
	expect_id(&s, MESSAGE_ATTACH, RUN_B);
	say_started(&s, RUN_B, 0, NULL, 0);
	expect_id(&s, MESSAGE_CANCEL, RUN_B);
	say_ended(&s, RUN_B);
	expect_id(&s, MESSAGE_ACK, RUN_B);
	stage_remove(&s);
}

TEST(workspaces_are_made_refused_and_dropped)
{
	struct stage s;
	struct made a = { 0 }, b = { 0 }, c = { 0 };

	stage_make(&s);
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &a);
	CHECK_EQ(a.n, 1);
	CHECK_EQ(a.code, -EAGAIN);
	listen_at(&s);
	greet(&s, NULL, NULL);
	a = (struct made){ 0 };
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &a);
	runtime_native.make_workspace(s.host, RUN_B, 1 << 20, on_made, &b);
	expect_id(&s, MESSAGE_MAKE_WORKSPACE, RUN_A);
	expect_id(&s, MESSAGE_MAKE_WORKSPACE, RUN_B);
	say_id(&s, MESSAGE_WORKSPACE, RUN_B);
	UNTIL(&s, b.n == 1);
	CHECK_EQ(b.code, 0);
	say_refused(&s, RUN_A, ENOSPC, REASON_PROVISION_FAILED);
	UNTIL(&s, a.n == 1);
	CHECK_EQ(a.code, -ENOSPC);
	runtime_native.drop_workspace(s.host, RUN_B);
	expect_id(&s, MESSAGE_DROP_WORKSPACE, RUN_B);
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &c);
	close_fdp(&s.fd);
	UNTIL(&s, c.n == 1);
	CHECK_EQ(c.code, -ECONNRESET);
	stage_remove(&s);
}

/* The keeper died, and another one answers. */
TEST(another_keeper_has_none_of_the_jobs)
{
	struct stage s;
	struct heard a, b, over;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	CHECK_EQ(start(&s, RUN_B, &b), 0);
	a.releases = true;
	CHECK_EQ(start(&s, RUN_C, &over), 0);
	say_ended(&s, RUN_C);
	UNTIL(&s, streq(over.words, "E"));
	close_fdp(&s.fd);
	UNTIL(&s, s.n_down == 1);
	CHECK(!runtime_native.is_up(s.host));
	CHECK_STR(b.words, ""); /* it is not yet known which keeper comes back */
	struct heard c;
	CHECK_EQ(start(&s, RUN_A, &c), -EAGAIN);
	s.instance = "8899aabbccddeeff";
	greet(&s, NULL, NULL);
	CHECK_STR(a.words, "L");
	CHECK_STR(b.words, "L");
	CHECK_STR(over.words, "E"); /* it is told nothing more */
	runtime_native.cancel(b.job);
	runtime_native.release(b.job);
	CHECK(is_silent(&s)); /* the new one never heard of it */
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	runtime_native.release(over.job);
	expect_id(&s, MESSAGE_ACK, RUN_C);
	stage_remove(&s);
}

/* Only the connection broke: what runs goes on, what was said meanwhile is said again. */
TEST(the_same_keeper_still_has_the_jobs)
{
	struct stage s;
	struct heard a, b;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	say_started(&s, RUN_A, 0, NULL, 0);
	say_running(&s, RUN_A);
	UNTIL(&s, streq(a.words, "sr"));
	CHECK_EQ(start(&s, RUN_B, &b), 0); /* which it does not read any more */
	close_fdp(&s.fd);
	UNTIL(&s, s.n_down == 1);
	runtime_native.cancel(a.job);
	greet(&s, RUN_A, NULL);
	expect_id(&s, MESSAGE_ATTACH, RUN_B);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	say_refused(&s, RUN_B, ENOENT, REASON_INFRASTRUCTURE_ERROR);
	say_started(&s, RUN_A, 0, NULL, 0);
	expect_id(&s, MESSAGE_CANCEL, RUN_A);
	say_running(&s, RUN_A);
	say_ended(&s, RUN_A);
	UNTIL(&s, streq(b.words, "R"));
	UNTIL(&s, a.words[strlen(a.words) - 1] == 'E');
	CHECK(strchr(a.words, 's') == strrchr(a.words, 's')); /* started once */
	CHECK(strchr(a.words, 'L') == NULL);
	stage_remove(&s);
}

/* Each is answered with several messages, and a keeper hangs up on who does not read them. */
TEST(a_few_runs_are_attached_at_a_time)
{
	struct stage s;
	struct heard h[40] = { 0 };
	char asked[40][RUN_ID_SIZE + 1];
	char id[RUN_ID_SIZE + 1];

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	for (unsigned i = 0; i < 40; i++) {
		(void)snprintf(id, sizeof(id), "%032x", i);
		CHECK_EQ(runtime_native.adopt(s.host, id, &events, &h[i], &h[i].job), 0);
	}
	for (unsigned i = 0; i < 16; i++)
		expect(&s, MESSAGE_ATTACH, asked[i], sizeof(asked[i]));
	CHECK(is_silent(&s));
	for (unsigned i = 0; i < 40; i++) {
		say_started(&s, asked[i], 0, NULL, 0);
		if (i + 16 < 40)
			expect(&s, MESSAGE_ATTACH, asked[i + 16], sizeof(asked[i]));
	}
	for (unsigned i = 0; i < 40; i++)
		UNTIL(&s, streq(h[i].words, "s"));
	stage_remove(&s);
}

/* A predecessor asked for it, died, and was heard after we had asked what there is. */
TEST(a_start_of_what_is_there_already_attaches)
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	say_refused(&s, RUN_A, EEXIST, REASON_INFRASTRUCTURE_ERROR);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	CHECK_STR(h.words, "");
	say_started(&s, RUN_A, 0, NULL, 0);
	UNTIL(&s, streq(h.words, "s"));
	stage_remove(&s);
}

TEST(a_keeper_that_comes_later_is_found)
{
	struct stage s;

	stage_make(&s);
	for (int i = 0; i < 300; i++)
		turn(&s);
	listen_at(&s);
	take_connection(&s);
	close_fdp(&s.fd); /* and one that hangs up before it has said anything */
	greet(&s, NULL, NULL);
	CHECK_EQ(s.n_down, 0);
	stage_remove(&s);
}

/* --- nonsense --- */

static void send_nothing(struct stage *s, uint32_t type)
{
	struct put p;

	put_init(&p, 16);
	send_put(s, type, &p);
}

static void unknown_type(struct stage *s)
{
	send_nothing(s, 99);
}

static void a_clients_word(struct stage *s)
{
	say_id(s, MESSAGE_ACK, RUN_A);
}

static void welcome_twice(struct stage *s)
{
	send_welcome(s, INSTANCE);
}

static void list_twice(struct stage *s)
{
	send_ids(s, MESSAGE_RUNS, RUN_A);
}

static void workspaces_twice(struct stage *s)
{
	send_ids(s, MESSAGE_WORKSPACES, NULL);
}

static void short_result(struct stage *s)
{
	say_id(s, MESSAGE_ENDED, RUN_A);
}

static void long_id(struct stage *s)
{
	say_running(s, RUN_A RUN_B);
}

static void unknown_reason(struct stage *s)
{
	say_refused(s, RUN_A, 5, REASON_COUNT);
}

static void impossible_error(struct stage *s)
{
	say_refused(s, RUN_A, 0x80000000u, REASON_PROVISION_FAILED);
}

static void bytes_left_over(struct stage *s)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, RUN_A);
	put_u64(&p, 1);
	put_u8(&p, 1);
	send_put(s, MESSAGE_RUNNING, &p);
}

static void another_version(struct stage *s)
{
	uint32_t header[2] = { 0xffffffff, MESSAGE_RUNNING };

	CHECK_EQ(send(s->fd, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
}

static void an_empty_message(struct stage *s)
{
	(void)send(s->fd, "x", 1, MSG_NOSIGNAL);
}

TEST(nonsense_drops_the_connection)
{
	static void (*const cases[])(struct stage * s) = { unknown_type, a_clients_word,
		welcome_twice, list_twice, workspaces_twice, short_result, long_id, unknown_reason,
		impossible_error, bytes_left_over, another_version, an_empty_message };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct stage s;
		struct heard h;

		stage_make(&s);
		listen_at(&s);
		greet(&s, NULL, NULL);
		CHECK_EQ(start(&s, RUN_A, &h), 0);
		cases[i](&s);
		UNTIL(&s, s.n_down == 1);
		CHECK_STR(h.words, "");
		stage_remove(&s);
	}
}

TEST(too_many_runs_are_nonsense)
{
	struct stage s;
	struct put p;

	stage_make(&s);
	listen_at(&s);
	take_connection(&s);
	expect(&s, MESSAGE_HELLO, NULL, 0);
	send_welcome(&s, INSTANCE);
	put_init(&p, 16);
	put_u32(&p, 0xffffffff);
	send_put(&s, MESSAGE_RUNS, &p);
	close_fdp(&s.fd);
	take_connection(&s); /* it tries again */
	CHECK_EQ(s.n_up, 0);
	stage_remove(&s);
}

/* --- a keeper that does not read --- */

TEST(messages_wait_in_order_for_a_keeper_that_does_not_read)
{
	struct stage s;
	char id[RUN_ID_SIZE + 1];
	enum { N = 3000 };

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	for (unsigned i = 0; i < N; i++) {
		(void)snprintf(id, sizeof(id), "%032x", i);
		runtime_native.drop_workspace(s.host, id);
	}
	for (unsigned i = 0; i < N; i++) {
		(void)snprintf(id, sizeof(id), "%032x", i);
		expect_id(&s, MESSAGE_DROP_WORKSPACE, id);
	}
	CHECK_EQ(s.n_down, 0);
	stage_remove(&s);
}

TEST(a_start_is_refused_when_too_much_waits)
{
	struct stage s;
	struct heard h;
	int r = 0;
	unsigned n = 0;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	for (; r == 0 && n < 20000; n++) {
		r = start(&s, RUN_A, &h);
		if (r == 0)
			runtime_native.release(h.job); /* also a message */
	}
	CHECK_EQ(r, -EAGAIN);
	CHECK(n > 1000);
	stage_remove(&s); /* with all of them waiting */
}

TEST(it_may_be_closed_while_it_greets)
{
	struct stage s;

	stage_make(&s);
	listen_at(&s);
	take_connection(&s);
	stage_remove(&s);
}

TESTS(UNIT(it_is_up_when_the_keeper_has_told_what_it_holds),
	UNIT(a_job_from_start_to_acknowledgement), UNIT(a_job_that_is_refused_hears_nothing_else),
	UNIT(a_job_that_is_released_early_is_canceled_and_acknowledged),
	UNIT(runs_from_before_are_adopted_or_discarded),
	UNIT(workspaces_are_made_refused_and_dropped), UNIT(another_keeper_has_none_of_the_jobs),
	UNIT(the_same_keeper_still_has_the_jobs), UNIT(a_few_runs_are_attached_at_a_time),
	UNIT(a_start_of_what_is_there_already_attaches), UNIT(a_keeper_that_comes_later_is_found),
	UNIT(nonsense_drops_the_connection), UNIT(too_many_runs_are_nonsense),
	UNIT(messages_wait_in_order_for_a_keeper_that_does_not_read),
	UNIT(a_start_is_refused_when_too_much_waits), UNIT(it_may_be_closed_while_it_greets))
