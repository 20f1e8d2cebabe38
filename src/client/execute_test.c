#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "client/task.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/pack_write.h"
#include "ipc/result.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* The keeper is played by a thread: it gets the request, and says what it is told
 * to. Real keepers are in tests/integration; what they never say is here. */
struct play;
typedef void script_fn(struct play *p);

struct play {
	script_fn *script;
	struct belljar_sandbox sandbox;
	struct scratch dir;
	pthread_t thread;
	int fd; /* the keeper's end */
	struct spec spec;
	uint8_t *buffer;
	int fds[CHANNEL_COUNT]; /* the box's ends */
	char printed[256];      /* what the listener was told, stderr in brackets */
	int n_started;
	int n_running;
};

/* In the thread, where a test can not fail. */
static void insist(bool cond)
{
	if (!cond)
		abort();
}

static uint32_t hear(struct play *p, struct frame *f)
{
	insist(frame_recv(p->fd, p->buffer, f) == 1);
	return f->type;
}

static void *play_main(void *arg)
{
	struct play *p = arg;
	struct frame f;
	struct cur c;

	insist(hear(p, &f) == MESSAGE_START);
	cur_init(&c, f.data, f.size);
	spec_get(&p->spec, &c);
	insist(cur_end(&c) == 0 && spec_check(&p->spec, NULL) == 0);
	p->script(p);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&p->fds[i]);
	return NULL;
}

static void say_started(struct play *p, uint32_t mask)
{
	struct put out;
	int theirs[CHANNEL_COUNT];
	size_t n = 0;

	for (int i = 0; i < CHANNEL_COUNT; i++) {
		int ends[2];

		if (!(mask & (1u << i)))
			continue;
		insist(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		p->fds[i] = ends[0];
		theirs[n++] = ends[1];
	}
	put_init(&out, 256);
	put_str(&out, p->spec.id);
	put_u32(&out, mask);
	insist(frame_send(p->fd, MESSAGE_STARTED, &out, theirs, n) == 0);
	put_fini(&out);
	for (size_t i = 0; i < n; i++)
		(void)close(theirs[i]);
}

#define STDIO (1u << CHANNEL_STDIN | 1u << CHANNEL_STDOUT | 1u << CHANNEL_STDERR)

static void say_running(struct play *p)
{
	struct put out;

	put_init(&out, 256);
	put_str(&out, p->spec.id);
	put_u64(&out, 1);
	insist(frame_send(p->fd, MESSAGE_RUNNING, &out, NULL, 0) == 0);
	put_fini(&out);
}

static void say_ended(struct play *p, enum reason reason, int code)
{
	struct result r = { .reason = reason, .exit_code = code, .message = "that was it" };
	struct put out;

	memcpy(r.id, p->spec.id, sizeof(r.id));
	put_init(&out, 1024);
	result_put(&r, &out);
	insist(frame_send(p->fd, MESSAGE_ENDED, &out, NULL, 0) == 0);
	put_fini(&out);
}

static void expect_ack(struct play *p)
{
	struct frame f;

	insist(hear(p, &f) == MESSAGE_ACK);
}

struct ear {
	struct belljar_listener listener;
	struct play *play;
};

static void on_event(struct belljar_listener *self, const struct belljar_event *e)
{
	struct play *p = ((struct ear *)self)->play;
	size_t used = strlen(p->printed);

	p->n_started += e->kind == BELLJAR_EVENT_STARTED;
	p->n_running += e->kind == BELLJAR_EVENT_RUNNING;
	if (e->kind == BELLJAR_EVENT_STDOUT || e->kind == BELLJAR_EVENT_STDERR)
		(void)snprintf(p->printed + used, sizeof(p->printed) - used,
			e->kind == BELLJAR_EVENT_STDERR ? "[%.*s]" : "%.*s", (int)e->size, e->data);
}

static void play_init(struct play *p, script_fn *script)
{
	int ends[2];

	*p = (struct play){ .script = script };
	scratch_make(&p->dir);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	p->fd = ends[0];
	p->buffer = xcalloc(1, FRAME_SIZE_MAX);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		p->fds[i] = -1;
	p->sandbox.root = p->dir.path;
	p->sandbox.idle[0] = ends[1];
	p->sandbox.n_idle = 1;
}

static void play_fini(struct play *p)
{
	while (p->sandbox.n_idle > 0)
		(void)close(p->sandbox.idle[--p->sandbox.n_idle]);
	close_fdp(&p->fd);
	spec_fini(&p->spec);
	free(p->buffer);
	scratch_remove(&p->dir);
}

#define PLAY(name, script)                                                                         \
	CLEANUP(play_fini) struct play name;                                                       \
	play_init(&name, script)

static const char *const true_argv[] = { "true", NULL };

static int execute(struct play *p, struct belljar_task_options *o, struct belljar_result *result,
	struct belljar_error *error)
{
	struct belljar_task *task = NULL;
	struct ear ear = { .listener = { on_event }, .play = p };
	size_t n_before = scratch_count_fds();
	bool greeted = p->sandbox.n_idle > 0;

	o->argv = true_argv;
	CHECK_EQ(belljar_task_new(&p->sandbox, o, &task, error), 0);
	CHECK_EQ(pthread_create(&p->thread, NULL, play_main, p), 0);
	int r = belljar_task_execute(task, &ear.listener, result, error);
	belljar_task_free(task);
	/* A connection on which something is outstanding is not used again. */
	CHECK_EQ(p->sandbox.n_idle, r == 0 && greeted ? 1 : 0);
	CHECK_EQ(pthread_join(p->thread, NULL), 0);
	CHECK_EQ(scratch_count_fds(), n_before - (r < 0) - (p->fd < 0));
	return r;
}

static void print_and_exit(struct play *p)
{
	say_started(p, STDIO);
	say_running(p);
	insist(fd_write_full(p->fds[CHANNEL_STDERR], "err", 3) == 0);
	close_fdp(&p->fds[CHANNEL_STDERR]);
	say_ended(p, REASON_NONZERO_EXIT, 3);
	/* Output that comes after the news of the end is output still. */
	(void)usleep(20000);
	insist(fd_write_full(p->fds[CHANNEL_STDOUT], "out", 3) == 0);
	close_fdp(&p->fds[CHANNEL_STDOUT]);
	expect_ack(p);
}

TEST(all_output_is_told_and_then_the_result)
{
	PLAY(p, print_and_exit);
	struct belljar_task_options o = { 0 };
	struct belljar_result result;

	CHECK_EQ(execute(&p, &o, &result, NULL), 0);
	CHECK_EQ(result.outcome, BELLJAR_NONZERO_EXIT);
	CHECK_EQ(result.exit_code, 3);
	CHECK_STR(result.message, "that was it");
	CHECK_STR(result.image, "host");
	CHECK_EQ(result.log_bytes, 6);
	CHECK_STR(p.printed, "[err]out");
	CHECK_EQ(p.n_started, 1);
	CHECK_EQ(p.n_running, 1);
}

static void echo_input(struct play *p)
{
	char text[16];

	say_started(p, STDIO);
	ssize_t n = fd_read_full(p->fds[CHANNEL_STDIN], text, sizeof(text)); /* to its end */
	insist(n >= 0 && fd_write_full(p->fds[CHANNEL_STDOUT], text, (size_t)n) == 0);
	close_fdp(&p->fds[CHANNEL_STDOUT]);
	close_fdp(&p->fds[CHANNEL_STDERR]);
	say_ended(p, REASON_EXIT_CODE_0, 0);
	expect_ack(p);
}

TEST(input_comes_as_bytes_from_a_descriptor_or_not_at_all)
{
	PLAY(bytes, echo_input);
	PLAY(file, echo_input);
	PLAY(none, echo_input);
	struct belljar_task_options o = { .input = "a\0b", .input_size = 3 };
	struct belljar_result result;

	CHECK_EQ(execute(&bytes, &o, &result, NULL), 0);
	CHECK_EQ(result.log_bytes, 3);
	scratch_write(file.dir.fd, "in", "hello");
	AUTO_FD fd = openat(file.dir.fd, "in", O_RDONLY | O_CLOEXEC);
	o = (struct belljar_task_options){ .has_input_fd = true, .input_fd = fd };
	CHECK_EQ(execute(&file, &o, &result, NULL), 0);
	CHECK_STR(file.printed, "hello");
	o = (struct belljar_task_options){ 0 };
	CHECK_EQ(execute(&none, &o, &result, NULL), 0);
	CHECK_STR(none.printed, "");
}

static void do_not_read(struct play *p)
{
	say_started(p, STDIO);
	close_fdp(&p->fds[CHANNEL_STDIN]);
	close_fdp(&p->fds[CHANNEL_STDOUT]);
	close_fdp(&p->fds[CHANNEL_STDERR]);
	say_ended(p, REASON_EXIT_CODE_0, 0);
	expect_ack(p);
}

TEST(a_guest_that_does_not_read_is_no_trouble)
{
	static char much[1 << 20];
	PLAY(p, do_not_read);
	struct belljar_task_options o = { .input = much, .input_size = sizeof(much) };
	struct belljar_result result;

	CHECK_EQ(execute(&p, &o, &result, NULL), 0); /* and no SIGPIPE ended us */
	CHECK_EQ(result.outcome, BELLJAR_SUCCESS);
}

static void refuse_with(struct play *p, enum reason reason)
{
	struct put out;

	put_init(&out, 512);
	put_str(&out, p->spec.id);
	put_u32(&out, ENOTSUP);
	put_u32(&out, reason);
	put_str(&out, "no, because");
	insist(frame_send(p->fd, MESSAGE_REFUSED, &out, NULL, 0) == 0);
	put_fini(&out);
}

static void refuse_policy(struct play *p)
{
	refuse_with(p, REASON_POLICY_DENIED);
}

static void refuse_ours(struct play *p)
{
	refuse_with(p, REASON_INFRASTRUCTURE_ERROR);
}

TEST(a_refusal_is_a_result_unless_it_is_our_failure)
{
	PLAY(policy, refuse_policy);
	PLAY(ours, refuse_ours);
	struct belljar_task_options o = { 0 };
	struct belljar_result result;
	struct belljar_error error = { 0 };

	CHECK_EQ(execute(&policy, &o, &result, &error), 0);
	CHECK_EQ(result.outcome, BELLJAR_POLICY_DENIED);
	CHECK_STR(result.message, "no, because");
	CHECK_EQ(result.error, ENOTSUP);
	CHECK_EQ(result.exit_code, -1);
	CHECK_EQ(execute(&ours, &o, &result, &error), -ENOTSUP);
	CHECK_STR(error.text, "no, because");
}

static void end_with_our_failure(struct play *p)
{
	say_started(p, STDIO);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&p->fds[i]);
	say_ended(p, REASON_INFRASTRUCTURE_ERROR, -1);
	expect_ack(p);
}

static void hang_up(struct play *p)
{
	say_started(p, STDIO);
	say_running(p);
	close_fdp(&p->fd);
}

static void talk_nonsense(struct play *p)
{
	struct put out;

	put_init(&out, 64);
	put_u64(&out, 1);
	insist(frame_send(p->fd, MESSAGE_ENDED, &out, NULL, 0) == 0);
	put_fini(&out);
}

TEST(a_keeper_that_fails_is_an_error_and_never_a_result)
{
	static const struct {
		script_fn *script;
		int code;
	} rows[] = {
		{ hang_up, -ECONNRESET },
		{ talk_nonsense, -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		PLAY(p, rows[i].script);
		struct belljar_task_options o = { 0 };
		struct belljar_result result = { .exit_code = 77 };
		struct belljar_error error = { 0 };

		CHECK_EQ(execute(&p, &o, &result, &error), rows[i].code);
		CHECK(error.text[0] != '\0');
		CHECK_EQ(result.exit_code, 77); /* outputs are untouched on failure */
	}
}

TEST(a_box_that_failed_is_an_error_with_its_sentence)
{
	PLAY(p, end_with_our_failure);
	struct belljar_task_options o = { .argv = true_argv };
	struct belljar_task *task = NULL;
	struct belljar_result result;
	struct belljar_error error = { 0 };

	CHECK_EQ(belljar_task_new(&p.sandbox, &o, &task, &error), 0);
	CHECK_EQ(pthread_create(&p.thread, NULL, play_main, &p), 0);
	CHECK_EQ(belljar_task_execute(task, NULL, &result, &error), -EIO);
	CHECK_STR(error.text, "that was it");
	belljar_task_free(task);
	CHECK_EQ(pthread_join(p.thread, NULL), 0);
}

static void capture_files(struct play *p)
{
	say_started(p, STDIO | 1u << CHANNEL_CAPTURE);
	struct pack_writer w = { .fd = p->fds[CHANNEL_CAPTURE], .max_bytes = UINT64_MAX };

	insist(pack_write_bytes(&w, "sub/a.png", 0644, "abc", 3, NULL) == 0);
	insist(pack_write_bytes(&w, "b.png", 0644, "d", 1, NULL) == 0);
	insist(pack_write_end(&w, NULL) == 0);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&p->fds[i]);
	say_ended(p, REASON_EXIT_CODE_0, 0);
	expect_ack(p);
}

static void capture_half(struct play *p)
{
	say_started(p, STDIO | 1u << CHANNEL_CAPTURE);
	struct pack_writer w = { .fd = p->fds[CHANNEL_CAPTURE], .max_bytes = UINT64_MAX };

	insist(pack_write_bytes(&w, "whole", 0644, "abc", 3, NULL) == 0);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&p->fds[i]);
	say_ended(p, REASON_EXIT_CODE_0, 0);
	expect_ack(p);
}

static const char *const all[] = { "**", NULL };

TEST(captured_files_arrive_and_a_cut_stream_is_told)
{
	PLAY(p, capture_files);
	PLAY(half, capture_half);
	struct belljar_task_options o = { .captures = all };
	struct belljar_result result;
	char dir[128];

	(void)snprintf(dir, sizeof(dir), "%s/new/out", p.dir.path);
	o.capture_dir = dir;
	CHECK_EQ(execute(&p, &o, &result, NULL), 0);
	CHECK(scratch_holds(p.dir.fd, "new/out/sub/a.png", "abc"));
	CHECK(scratch_holds(p.dir.fd, "new/out/b.png", "d"));
	CHECK_EQ(result.captured_files, 2);
	CHECK(!result.capture_incomplete);
	CHECK_EQ(execute(&half, &o, &result, NULL), 0);
	CHECK(result.capture_incomplete);
}

/* A box that was taken over might send a link, to have its reader led astray. */
static void capture_link(struct play *p)
{
	static uint8_t head[PACK_HEAD_SIZE + PACK_NAME_MAX];
	static struct pack_entry e = { .kind = PACK_LINK, .mode = 0777, .size = 1, .name = "a" };

	say_started(p, STDIO | 1u << CHANNEL_CAPTURE);
	insist(fd_write_full(p->fds[CHANNEL_CAPTURE], head, pack_encode(&e, head)) == 0);
	insist(fd_write_full(p->fds[CHANNEL_CAPTURE], "/", 1) == 0);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&p->fds[i]);
	say_ended(p, REASON_EXIT_CODE_0, 0);
	expect_ack(p);
}

TEST(no_link_comes_out_of_a_box)
{
	PLAY(p, capture_link);
	struct belljar_task_options o = { .argv = true_argv, .captures = all };
	struct belljar_task *task = NULL;
	struct belljar_result result;
	struct belljar_error error = { 0 };

	o.capture_dir = p.dir.path;
	CHECK_EQ(belljar_task_new(&p.sandbox, &o, &task, &error), 0);
	CHECK_EQ(pthread_create(&p.thread, NULL, play_main, &p), 0);
	CHECK_EQ(belljar_task_execute(task, NULL, &result, &error), 0);
	belljar_task_free(task);
	CHECK_EQ(pthread_join(p.thread, NULL), 0);
	CHECK(!scratch_has(p.dir.fd, "a"));
	/* What a guest can bring about must not hide how it ended. */
	CHECK_EQ(result.outcome, BELLJAR_SUCCESS);
	CHECK(result.capture_incomplete);
	CHECK(strncmp(result.message, "capture: ", 9) == 0);
}

static void await_cancel(struct play *p)
{
	struct frame f;

	say_started(p, STDIO);
	say_running(p);
	insist(hear(p, &f) == MESSAGE_CANCEL);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&p->fds[i]);
	say_ended(p, REASON_CANCELED_BY_USER, -1);
	expect_ack(p);
}

TEST(a_stop_before_the_start_counts)
{
	PLAY(p, await_cancel);
	struct belljar_task_options o = { .argv = true_argv };
	struct belljar_task *task = NULL;
	struct belljar_result result;

	CHECK_EQ(belljar_task_new(&p.sandbox, &o, &task, NULL), 0);
	CHECK_EQ(pthread_create(&p.thread, NULL, play_main, &p), 0);
	belljar_task_stop(task);
	CHECK_EQ(belljar_task_execute(task, NULL, &result, NULL), 0);
	CHECK_EQ(result.outcome, BELLJAR_CANCELED);
	CHECK_EQ(belljar_task_signal(task, 15), -ESRCH); /* it is over */
	belljar_task_free(task);
	CHECK_EQ(pthread_join(p.thread, NULL), 0);
}

TEST(a_request_that_is_too_large_is_told)
{
	PLAY(p, NULL);
	AUTO_FREE char *large = xcalloc(1, SPEC_STRING_MAX);
	const char *argv[] = { "true", large, large, NULL };
	struct belljar_task_options o = { .argv = argv };
	struct belljar_task *task = NULL;
	struct belljar_result result;
	struct belljar_error error = { 0 };

	memset(large, 'x', SPEC_STRING_MAX - 1);
	CHECK_EQ(belljar_task_new(&p.sandbox, &o, &task, &error), 0);
	CHECK_EQ(belljar_task_execute(task, NULL, &result, &error), -E2BIG);
	CHECK(strstr(error.text, "192 KiB") != NULL);
	belljar_task_free(task);
}

TEST(every_outcome_has_a_name)
{
	for (int i = BELLJAR_SUCCESS; i <= BELLJAR_POLICY_DENIED; i++)
		CHECK(belljar_outcome_name((enum belljar_outcome)i) != NULL);
	CHECK(belljar_outcome_name((enum belljar_outcome)99) == NULL);
}

TESTS(UNIT(all_output_is_told_and_then_the_result),
	UNIT(input_comes_as_bytes_from_a_descriptor_or_not_at_all),
	UNIT(a_guest_that_does_not_read_is_no_trouble),
	UNIT(a_refusal_is_a_result_unless_it_is_our_failure),
	UNIT(a_keeper_that_fails_is_an_error_and_never_a_result),
	UNIT(a_box_that_failed_is_an_error_with_its_sentence),
	UNIT(captured_files_arrive_and_a_cut_stream_is_told), UNIT(no_link_comes_out_of_a_box),
	UNIT(a_stop_before_the_start_counts), UNIT(a_request_that_is_too_large_is_told),
	UNIT(every_outcome_has_a_name))
