/* Executing a task: one poll loop over the keeper and the guest's channels, until
 * the keeper has said how it ended and every channel is drained. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "client/capture.h"
#include "client/outcome.h"
#include "client/task.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/pack_write.h"
#include "ipc/result.h"

#define CHUNK_SIZE (64u << 10)

/* How soon a terminal that nobody has open is looked at again. */
#define TTY_REST_MS 20

struct execution {
	struct belljar_task *task;
	struct belljar_listener *listener;
	int keeper_fd;
	int fds[CHANNEL_COUNT]; /* our ends; -1 once done with */
	bool started;
	bool ended;
	bool refused;
	bool tty_rests; /* nobody in the box has the terminal open */
	struct result result;
	uint64_t log_bytes;

	/* stdin: what was read from the caller and not yet written to the guest */
	const char *pending;
	size_t n_pending;
	bool input_ended;
	char *input_chunk;

	/* captured files */
	int capture_fd;
	struct capture *capture; /* NULL: none are wanted */
	bool capture_failed;
	struct err capture_error;

	uint8_t *frame_buffer;
	char *chunk;
};

static void emit(struct execution *e, enum belljar_event_kind kind, const char *data, size_t size)
{
	struct belljar_event event = { .kind = kind, .data = data, .size = size };

	if (e->listener && e->listener->on_event)
		e->listener->on_event(e->listener, &event);
}

/* Other threads may stop, signal and resize from now on, or no more. */
static void publish(struct execution *e, int keeper_fd, int tty_fd)
{
	struct belljar_task *t = e->task;

	(void)pthread_mutex_lock(&t->lock);
	t->keeper_fd = keeper_fd;
	t->tty_fd = tty_fd;
	bool stopped = t->stopped;
	(void)pthread_mutex_unlock(&t->lock);
	if (keeper_fd >= 0 && stopped) {
		struct put p;

		put_init(&p, 256);
		put_str(&p, t->spec.id);
		(void)frame_send(keeper_fd, MESSAGE_CANCEL, &p, NULL, 0);
		put_fini(&p);
	}
}

static int send_host_file(struct pack_writer *w, const struct task_file *f, struct err *err)
{
	struct stat st;
	AUTO_FD fd = open(f->host_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "open %s", f->host_path);
	if (S_ISDIR(st.st_mode))
		return pack_write_tree(w, f->name, fd, err);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is neither a file nor a directory", f->host_path);
	return pack_write_file(w, f->name, fd, err);
}

static int send_files(struct execution *e, struct err *err)
{
	struct pack_writer w = { .fd = e->fds[CHANNEL_FILES], .max_bytes = UINT64_MAX };
	int r = 0;

	for (size_t i = 0; i < e->task->n_files && r == 0; i++) {
		const struct task_file *f = &e->task->files[i];

		r = f->bytes ? pack_write_bytes(&w, f->name, f->mode, f->bytes, f->size, err)
			     : send_host_file(&w, f, err);
	}
	if (r == 0)
		r = pack_write_end(&w, err);
	close_fdp(&e->fds[CHANNEL_FILES]);
	/* The box hung up: it will say itself why, and better than we could. */
	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static void end_input(struct execution *e)
{
	e->input_ended = true;
	e->n_pending = 0;
	/* A terminal stays open for its output. */
	if (!e->task->spec.tty)
		close_fdp(&e->fds[CHANNEL_STDIN]);
}

static int on_started(struct execution *e, struct cur *c, struct frame *f, struct err *err)
{
	char id[RUN_ID_SIZE + 1];
	size_t n = 0;

	cur_str_into(c, id, sizeof(id));
	uint32_t mask = cur_u32(c);
	if (cur_end(c) < 0)
		return err_set(err, -EBADMSG, "the keeper sent nonsense");
	for (int i = 0; i < CHANNEL_COUNT; i++) {
		if ((mask & (1u << i)) && n < f->n_fds)
			e->fds[i] = take_fd(&f->fds[n++]);
	}
	static const enum channel polled[] = { CHANNEL_STDIN, CHANNEL_TTY };
	for (size_t i = 0; i < ARRAY_SIZE(polled); i++) {
		if (e->fds[polled[i]] >= 0)
			(void)fd_set_nonblock(e->fds[polled[i]], true);
	}
	e->started = true;
	if (e->n_pending == 0 && e->task->input_fd < 0)
		end_input(e); /* there is none, and the guest is to see that */
	publish(e, e->keeper_fd, e->fds[CHANNEL_TTY]);
	emit(e, BELLJAR_EVENT_STARTED, NULL, 0);
	return e->fds[CHANNEL_FILES] >= 0 ? send_files(e, err) : 0;
}

static int on_refused(struct execution *e, struct cur *c, struct err *err)
{
	char id[RUN_ID_SIZE + 1];
	char text[256];

	cur_str_into(c, id, sizeof(id));
	int code = -(int)cur_u32(c);
	uint32_t reason = cur_u32(c);
	cur_str_into(c, text, sizeof(text));
	if (cur_end(c) < 0 || reason >= REASON_COUNT)
		return err_set(err, -EBADMSG, "the keeper sent nonsense");
	if (e->started)
		return 0; /* of a signal that came too late */
	if (reason == REASON_INFRASTRUCTURE_ERROR)
		return err_set(err, code, "%s", text);
	e->result.reason = (enum reason)reason;
	e->result.exit_code = -1;
	e->result.error = -code;
	memcpy(e->result.message, text, sizeof(text));
	e->ended = e->refused = true;
	return 0;
}

static int on_ended(struct execution *e, struct cur *c, struct err *err)
{
	result_get(&e->result, c);
	if (cur_end(c) < 0)
		return err_set(err, -EBADMSG, "the keeper sent nonsense");
	e->ended = true;
	return 0;
}

static int on_keeper(struct execution *e, struct err *err)
{
	struct frame f;
	struct cur c;
	int r = frame_recv(e->keeper_fd, e->frame_buffer, &f);

	if (r == 0 || r == -ECONNRESET)
		return err_set(err, -ECONNRESET, "the keeper is gone");
	if (r < 0)
		return err_set(err, r, "talk to the keeper: %s", strerror(-r));
	cur_init(&c, f.data, f.size);
	r = 0;
	if (f.type == MESSAGE_STARTED)
		r = on_started(e, &c, &f, err);
	else if (f.type == MESSAGE_REFUSED)
		r = on_refused(e, &c, err);
	else if (f.type == MESSAGE_RUNNING)
		emit(e, BELLJAR_EVENT_RUNNING, NULL, 0);
	else if (f.type == MESSAGE_ENDED)
		r = on_ended(e, &c, err);
	frame_close_fds(&f);
	return r;
}

static void on_output(struct execution *e, enum channel channel)
{
	enum belljar_event_kind kind =
		channel == CHANNEL_STDERR ? BELLJAR_EVENT_STDERR : BELLJAR_EVENT_STDOUT;
	ssize_t n = read(e->fds[channel], e->chunk, CHUNK_SIZE);

	if (n > 0) {
		e->log_bytes += (uint64_t)n;
		emit(e, kind, e->chunk, (size_t)n);
	} else if (channel == CHANNEL_TTY && !e->ended) {
		/* Nobody has it open just now, as after `exec >log 2>&1 </dev/null`. To
		 * close it would send the guest a hangup. */
		e->tty_rests = true;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		if (channel == CHANNEL_TTY)
			publish(e, e->keeper_fd, -1);
		close_fdp(&e->fds[channel]);
	}
}

static void on_capture(struct execution *e)
{
	ssize_t n = read(e->fds[CHANNEL_CAPTURE], e->chunk, CHUNK_SIZE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close_fdp(&e->fds[CHANNEL_CAPTURE]);
		return;
	}
	if (e->capture_failed)
		return; /* read on, so that the box can come to its end */
	if (pack_feed(&e->capture->reader, (const uint8_t *)e->chunk, (size_t)n,
		    &e->capture_error) < 0)
		e->capture_failed = true;
}

/* Where input goes: into the terminal or the pipe. */
static int *input_channel(struct execution *e)
{
	return &e->fds[e->task->spec.tty ? CHANNEL_TTY : CHANNEL_STDIN];
}

static void write_input(struct execution *e)
{
	ssize_t n = write(*input_channel(e), e->pending, e->n_pending);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		end_input(e); /* the guest does not want to read */
		return;
	}
	e->pending += n;
	e->n_pending -= (size_t)n;
	if (e->n_pending == 0 && e->task->input_fd < 0)
		end_input(e);
}

static void read_input(struct execution *e)
{
	ssize_t n = read(e->task->input_fd, e->input_chunk, CHUNK_SIZE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		/* For a terminal, the end of input is what Ctrl-D would be. */
		if (n == 0 && e->task->spec.tty && e->fds[CHANNEL_TTY] >= 0)
			(void)!write(e->fds[CHANNEL_TTY], "\004", 1);
		end_input(e);
		return;
	}
	e->pending = e->input_chunk;
	e->n_pending = (size_t)n;
}

enum poll_row {
	POLL_KEEPER,
	POLL_STDOUT,
	POLL_STDERR,
	POLL_TTY,
	POLL_CAPTURE,
	POLL_INPUT_TO,
	POLL_INPUT_FROM,
	POLL_COUNT,
};

/* Descriptors of -1 are ignored by poll(). */
static void fill_poll(struct execution *e, struct pollfd *p)
{
	bool wants_input = e->started && !e->input_ended && *input_channel(e) >= 0 && !e->tty_rests;

	p[POLL_KEEPER] = (struct pollfd){ .fd = e->ended ? -1 : e->keeper_fd, .events = POLLIN };
	p[POLL_STDOUT] = (struct pollfd){ .fd = e->fds[CHANNEL_STDOUT], .events = POLLIN };
	p[POLL_STDERR] = (struct pollfd){ .fd = e->fds[CHANNEL_STDERR], .events = POLLIN };
	p[POLL_TTY] = (struct pollfd){
		.fd = e->tty_rests ? -1 : e->fds[CHANNEL_TTY],
		.events = POLLIN,
	};
	p[POLL_CAPTURE] = (struct pollfd){ .fd = e->fds[CHANNEL_CAPTURE], .events = POLLIN };
	p[POLL_INPUT_TO] = (struct pollfd){
		.fd = wants_input && e->n_pending > 0 ? *input_channel(e) : -1,
		.events = POLLOUT,
	};
	p[POLL_INPUT_FROM] = (struct pollfd){
		.fd = wants_input && e->n_pending == 0 ? e->task->input_fd : -1,
		.events = POLLIN,
	};
}

static bool is_open(const struct execution *e)
{
	static const enum channel drained[] = { CHANNEL_STDOUT, CHANNEL_STDERR, CHANNEL_TTY,
		CHANNEL_CAPTURE };

	for (size_t i = 0; i < ARRAY_SIZE(drained); i++) {
		if (e->fds[drained[i]] >= 0)
			return true;
	}
	return !e->ended;
}

static int loop(struct execution *e, struct err *err)
{
	struct pollfd p[POLL_COUNT];
	int r = 0;

	while (r == 0 && is_open(e)) {
		fill_poll(e, p);
		int n = poll(p, POLL_COUNT, e->tty_rests ? TTY_REST_MS : -1);
		if (n < 0 && errno != EINTR)
			return err_errno(err, "poll");
		e->tty_rests = false;
		if (n <= 0)
			continue;
		if (p[POLL_STDOUT].revents)
			on_output(e, CHANNEL_STDOUT);
		if (p[POLL_STDERR].revents)
			on_output(e, CHANNEL_STDERR);
		if (p[POLL_TTY].revents)
			on_output(e, CHANNEL_TTY);
		if (p[POLL_CAPTURE].revents)
			on_capture(e);
		if (p[POLL_INPUT_TO].revents && *input_channel(e) >= 0)
			write_input(e);
		if (p[POLL_INPUT_FROM].revents)
			read_input(e);
		if (p[POLL_KEEPER].revents)
			r = on_keeper(e, err);
	}
	return r;
}

static int send_start(struct execution *e, struct err *err)
{
	struct put p;

	put_init(&p, SPEC_SIZE_MAX);
	spec_put(&e->task->spec, &p);
	int r = put_end(&p);
	if (r < 0)
		(void)err_set(err, r, "command and environment together pass %u KiB",
			SPEC_SIZE_MAX >> 10);
	else
		r = frame_send(e->keeper_fd, MESSAGE_START, &p, NULL, 0);
	if (r < 0 && r != -E2BIG)
		(void)err_set(err, r, "talk to the keeper: %s", strerror(-r));
	put_fini(&p);
	return r;
}

static void acknowledge(struct execution *e)
{
	struct put p;

	put_init(&p, 256);
	put_str(&p, e->task->spec.id);
	(void)frame_send(e->keeper_fd, MESSAGE_ACK, &p, NULL, 0);
	put_fini(&p);
}

static int open_capture(struct execution *e, struct err *err)
{
	if (!e->task->spec.globs[0])
		return 0;
	int r = path_make_dirs(e->task->capture_dir, 0755, err);
	if (r < 0)
		return r;
	e->capture_fd = open(e->task->capture_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (e->capture_fd < 0)
		return err_errno(err, "open %s", e->task->capture_dir);
	e->capture = xnew(struct capture);
	capture_init(
		e->capture, e->capture_fd, e->task->spec.globs, e->task->spec.limits.capture_bytes);
	return 0;
}

static void fini(struct execution *e)
{
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&e->fds[i]);
	if (e->capture)
		capture_fini(e->capture);
	free(e->capture);
	close_fdp(&e->capture_fd);
	close_fdp(&e->keeper_fd);
	free(e->frame_buffer);
	free(e->chunk);
	free(e->input_chunk);
}

static int execute(struct execution *e, struct err *err)
{
	int r = open_capture(e, err);

	if (r == 0)
		r = sandbox_take_connection(e->task->sandbox, e->frame_buffer, &e->keeper_fd, err);
	if (r == 0)
		r = send_start(e, err);
	if (r == 0)
		r = loop(e, err);
	publish(e, -1, -1);
	if (r < 0)
		return r; /* the connection is closed with us, and that ends the run */
	if (!e->refused)
		acknowledge(e);
	sandbox_give_connection(e->task->sandbox, take_fd(&e->keeper_fd));
	return 0;
}

static void publish_capture(const struct capture *c, struct belljar_result *ret)
{
	const char *unmatched = capture_find_unmatched(c);

	ret->captured_files = c->reader.n_entries - c->unpack.n_skipped;
	ret->skipped_files = c->skipped.n;
	ret->unreadable_files = c->unreadable.n;
	ret->capture_incomplete = !c->reader.ended;
	(void)snprintf(ret->skipped_file, sizeof(ret->skipped_file), "%s", c->skipped.first);
	(void)snprintf(
		ret->unreadable_file, sizeof(ret->unreadable_file), "%s", c->unreadable.first);
	(void)snprintf(ret->unmatched_capture, sizeof(ret->unmatched_capture), "%.255s",
		unmatched ? unmatched : "");
}

static int publish_result(const struct execution *e, struct belljar_result *ret, struct err *err)
{
	int r = outcome_publish(&e->result, &e->task->spec, ret, err);

	if (r < 0)
		return r;
	ret->log_bytes = e->log_bytes;
	if (e->capture)
		publish_capture(e->capture, ret);
	/* The guest chooses the names: that we can not write one says nothing of its run. */
	if (e->capture_failed)
		(void)snprintf(ret->message, sizeof(ret->message), "capture: %.240s",
			e->capture_error.text);
	return 0;
}

/* Writing to a guest that no longer reads must not kill the caller. */
static void block_sigpipe(sigset_t *old)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &set, old);
}

static void unblock_sigpipe(const sigset_t *old)
{
	const struct timespec now = { 0 };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	if (!sigismember(old, SIGPIPE))
		while (sigtimedwait(&set, NULL, &now) > 0)
			;
	(void)pthread_sigmask(SIG_SETMASK, old, NULL);
}

static int refuse_image(struct execution *e, struct belljar_result *result, struct err *err)
{
	e->result.reason = REASON_IMAGE_PULL_FAILED;
	e->result.exit_code = -1;
	memcpy(e->result.message, e->task->image_error->text, sizeof(e->result.message));
	int r = publish_result(e, result, err);
	result->image[0] = '\0'; /* there is none */
	return r;
}

int belljar_task_execute(struct belljar_task *task, struct belljar_listener *listener,
	struct belljar_result *result, struct belljar_error *error)
{
	struct err err = { 0 };
	sigset_t old;
	struct execution e = {
		.task = task,
		.listener = listener,
		.keeper_fd = -1,
		.capture_fd = -1,
		.pending = task->input,
		.n_pending = task->input_size,
		.input_ended = false,
	};

	if (task->executed)
		return sandbox_report(
			error, &(struct err){ .text = "a task is executed once" }, -EALREADY);
	task->executed = true;
	/* What holds until the keeper knows better: nothing ran, so nothing was measured. */
	e.result.enforced = task->sandbox->facets;
	e.result.usage = (struct usage){ USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN,
		USAGE_UNKNOWN, 0 };
	for (int i = 0; i < CHANNEL_COUNT; i++)
		e.fds[i] = -1;
	if (task->image_error)
		return refuse_image(&e, result, &err);
	e.frame_buffer = xcalloc(1, FRAME_SIZE_MAX);
	e.chunk = xcalloc(1, CHUNK_SIZE);
	e.input_chunk = xcalloc(1, CHUNK_SIZE);
	block_sigpipe(&old);
	int r = execute(&e, &err);
	if (r == 0)
		r = publish_result(&e, result, &err);
	fini(&e);
	unblock_sigpipe(&old);
	return r < 0 ? sandbox_report(error, &err, r) : 0;
}
