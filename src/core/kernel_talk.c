/* The pipe to an interpreter, the one on which it answers, and those it prints into. */
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/kernel_private.h"
#include "core/service.h"
#include "core/session.h"

#define CHUNK_SIZE    (64u << 10)
#define CHUNKS_A_TURN 4 /* so that others get their turn on the loop */

static void on_tap_closed(uv_handle_t *handle)
{
	struct tap *t = handle->data;

	close_fdp(&t->fd);
	free(t);
}

static void close_tap(struct tap **at)
{
	struct tap *t = TAKE(*at);

	if (!t)
		return;
	(void)uv_poll_stop(&t->poll);
	uv_close((uv_handle_t *)&t->poll, on_tap_closed);
}

/* --- what it prints --- */

/* False at its end. */
static bool take_chunk(struct tap *t, size_t max, size_t *ret_n)
{
	static char chunk[CHUNK_SIZE]; /* the loop has one thread */
	ssize_t n = read(t->fd, chunk, max < sizeof(chunk) ? max : sizeof(chunk));

	*ret_n = n > 0 ? (size_t)n : 0;
	if (n > 0)
		excerpt_add(t->into, chunk, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_output(uv_poll_t *poll, int status, int events)
{
	struct tap *t = poll->data;
	struct kernel *k = t->kernel;
	bool goes_on = true;
	size_t n = 1;

	(void)status;
	(void)events;
	for (int i = 0; i < CHUNKS_A_TURN && goes_on && n > 0; i++)
		goes_on = take_chunk(t, CHUNK_SIZE, &n);
	if (!goes_on)
		close_tap(t == k->out_tap ? &k->out_tap : &k->err_tap);
}

/* No more than is there at this moment, or a flood would keep us. */
static void catch_up(struct tap **at)
{
	int left = 0;
	size_t n = 1;

	if (!*at || ioctl((*at)->fd, FIONREAD, &left) < 0)
		return;
	while (left > 0 && n > 0) {
		if (!take_chunk(*at, (size_t)left, &n)) {
			close_tap(at);
			return;
		}
		left -= (int)n;
	}
}

void kernel_catch_up(struct kernel *k)
{
	catch_up(&k->out_tap);
	catch_up(&k->err_tap);
}

/* --- what it says --- */

/* False when there is nobody any more to say it to. */
static bool obey(struct kernel *k, int word)
{
	if (word < 0)
		kernel_on_nonsense(k);
	else if (word == KERNEL_WORD_READY)
		kernel_on_ready(k);
	else if (word == KERNEL_WORD_DONE)
		kernel_on_done(k);
	return word >= 0;
}

/* It may be hung up on by whoever hears of a word. */
static void hear(struct kernel *k, const uint8_t *data, size_t size)
{
	struct session *session = k->session;
	struct tap *t = k->reply_tap;

	while (size > 0 && session->kernel == k && k->reply_tap == t) {
		size_t taken = 0;

		if (k->was_ready && !k->is_executing) { /* nobody asked, and nobody keeps it */
			kernel_on_nonsense(k);
			return;
		}
		int word = kernel_reader_feed(&k->reader, data, size, &taken);

		data += taken;
		size -= taken;
		if (!obey(k, word))
			return;
	}
}

static void on_reply(uv_poll_t *poll, int status, int events)
{
	struct tap *t = poll->data;
	struct kernel *k = t->kernel;
	struct session *session = k->session;
	uint8_t *chunk = NULL;

	(void)status;
	(void)events;
	chunk = xcalloc(1, CHUNK_SIZE);
	session->n_work++; /* it does not go while we are in here */
	for (int i = 0; i < CHUNKS_A_TURN && session->kernel == k && k->reply_tap == t; i++) {
		ssize_t n = read(t->fd, chunk, CHUNK_SIZE);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			close_tap(&k->reply_tap); /* that its run is over, the runtime says */
			kernel_on_mute(k);
		}
		if (n <= 0)
			break;
		hear(k, chunk, (size_t)n);
		if ((size_t)n < CHUNK_SIZE)
			break;
	}
	free(chunk);
	session->n_work--;
	session_check_ending(session);
}

static struct tap *open_tap(struct kernel *k, int fd, struct excerpt *into)
{
	struct tap *t = xnew(struct tap);

	(void)fd_set_nonblock(fd, true);
	*t = (struct tap){ .kernel = k, .fd = fd, .into = into };
	(void)uv_poll_init(k->service->loop, &t->poll, fd);
	t->poll.data = t;
	return t;
}

static struct tap *listen_to(struct kernel *k, int fd, struct excerpt *into, uv_poll_cb on)
{
	struct tap *t = open_tap(k, fd, into);

	(void)uv_poll_start(&t->poll, UV_READABLE, on);
	return t;
}

void kernel_attach(struct kernel *k, const struct kernel_fds *fds)
{
	k->say_tap = open_tap(k, fds->say, NULL);
	k->reply_tap = listen_to(k, fds->reply, NULL, on_reply);
	k->out_tap = listen_to(k, fds->out, &k->out, on_output);
	k->err_tap = listen_to(k, fds->err, &k->err, on_output);
	kernel_on_attached(k);
}

static void forget_unsent(struct kernel *k)
{
	if (k->unsent)
		explicit_bzero(k->unsent, k->n_unsent);
	free(TAKE(k->unsent));
	k->n_unsent = k->at_unsent = k->n_code = 0;
}

void kernel_hang_up(struct kernel *k)
{
	close_tap(&k->say_tap);
	close_tap(&k->reply_tap);
	close_tap(&k->out_tap);
	close_tap(&k->err_tap);
	kernel_reader_fini(&k->reader);
	forget_unsent(k);
	k->signal_waits = false;
}

/* --- what is said to it --- */

static void on_room(uv_poll_t *poll, int status, int events);

/* A signal that came first would find nothing to interrupt. */
static void send_signal(struct kernel *k)
{
	k->signal_waits = false;
	if (k->run && k->run->job)
		k->service->runtime->signal(k->run->job, SIGINT);
}

/* Nobody waits for room in the pipe while there is nothing to say. */
static void push(struct kernel *k)
{
	while (k->say_tap && k->at_unsent < k->n_unsent) {
		ssize_t n =
			write(k->say_tap->fd, k->unsent + k->at_unsent, k->n_unsent - k->at_unsent);

		if (n < 0 && errno == EAGAIN) {
			(void)uv_poll_start(&k->say_tap->poll, UV_WRITABLE, on_room);
			return;
		}
		if (n < 0 && errno != EINTR)
			break; /* its run is over, which the runtime says */
		k->at_unsent += n > 0 ? (size_t)n : 0;
	}
	forget_unsent(k);
	if (k->say_tap)
		(void)uv_poll_stop(&k->say_tap->poll);
	if (k->signal_waits)
		send_signal(k);
}

static void on_room(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	push(((struct tap *)poll->data)->kernel);
}

#define HEAD_SIZE (3 * sizeof(uint32_t))

static char *put_number(char *at, size_t value)
{
	uint32_t v = htole32((uint32_t)value);

	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

/* Room behind what is not sent yet. */
static char *extend(struct kernel *k, size_t size)
{
	size_t n = k->n_unsent - k->at_unsent;
	char *data = xcalloc(1, n + size);

	if (n > 0)
		memcpy(data, k->unsent + k->at_unsent, n);
	forget_unsent(k);
	k->unsent = data;
	k->n_unsent = n + size;
	return data + n;
}

void kernel_send(struct kernel *k, const struct execution *e)
{
	char *at = extend(k, HEAD_SIZE + e->env_size + e->size);

	k->n_code = k->n_unsent;
	k->has_said_press = k->signal_waits = false;
	at = put_number(at, k->number);
	at = put_number(at, e->env_size);
	at = put_number(at, e->size);
	if (e->env_size)
		memcpy(at, e->env, e->env_size);
	memcpy(at + e->env_size, e->code, e->size);
	push(k);
}

void kernel_send_press(struct kernel *k)
{
	size_t n_code = k->n_code > k->at_unsent ? k->n_code - k->at_unsent : 0;

	if (!k->has_said_press) {
		char *at = extend(k, HEAD_SIZE);

		k->n_code = n_code;
		(void)put_number(put_number(put_number(at, k->number), KERNEL_PRESS), 0);
		k->has_said_press = true;
	}
	k->signal_waits = true;
	push(k);
}
