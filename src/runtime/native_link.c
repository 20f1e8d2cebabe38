/* The connection to the keeper: made, and made again when it broke; what is said on it, in order,
 * also when the keeper does not read for a while. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/doing.h"
#include "base/log.h"
#include "base/str.h"
#include "ipc/frame.h"
#include "runtime/native_private.h"

#define RETRY_MAX_MS  1000
#define UNSENT_MAX    4096u                /* messages that wait for the keeper to read */
#define GONE_NS       UINT64_C(5000000000) /* after which a keeper is not waited for */
#define FRAMES_A_TURN 64                   /* so that others get their turn on the loop */

static void on_poll(uv_poll_t *poll, int status, int events);

/* --- sending --- */

static void watch(struct runtime_host *h)
{
	int events = UV_READABLE | (h->unsent ? UV_WRITABLE : 0);

	(void)uv_poll_start(h->poll, events, on_poll);
}

static void drop_unsent(struct runtime_host *h)
{
	while (h->unsent) {
		struct unsent *u = h->unsent;

		h->unsent = u->next;
		put_fini(&u->payload);
		free(u);
	}
	h->unsent_end = &h->unsent;
	h->n_unsent = 0;
}

/* Send, or keep it for when the keeper reads again; takes the payload. */
int native_say(struct runtime_host *h, uint32_t type, struct put *payload)
{
	int r = put_end(payload);

	if (r == 0 && h->fd < 0)
		r = -EPIPE;
	if (r == 0)
		r = h->unsent ? -EAGAIN : frame_send(h->fd, type, payload, NULL, 0);
	if (r == -EAGAIN && h->n_unsent < UNSENT_MAX) {
		struct unsent *u = xnew(struct unsent);

		u->type = type;
		u->payload = *payload;
		*h->unsent_end = u;
		h->unsent_end = &u->next;
		h->n_unsent++;
		watch(h);
		return 0;
	}
	put_fini(payload);
	return r;
}

int native_say_id(struct runtime_host *h, uint32_t type, const char *id)
{
	struct put p;

	put_init(&p, 64);
	put_str(&p, id);
	return native_say(h, type, &p);
}

int native_say_nothing(struct runtime_host *h, uint32_t type)
{
	struct put p;

	put_init(&p, 16);
	return native_say(h, type, &p);
}

static int flush(struct runtime_host *h)
{
	while (h->unsent) {
		struct unsent *u = h->unsent;
		int r = frame_send(h->fd, u->type, &u->payload, NULL, 0);

		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		h->unsent = u->next;
		if (!h->unsent)
			h->unsent_end = &h->unsent;
		h->n_unsent--;
		put_fini(&u->payload);
		free(u);
	}
	watch(h);
	return 0;
}

/* --- the connection --- */

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

static void on_retry(uv_timer_t *timer)
{
	native_connect(timer->data);
}

static void retry_later(struct runtime_host *h)
{
	h->state = STATE_WAITING;
	(void)uv_timer_start(&h->retry, on_retry, h->retry_ms, 0);
	h->retry_ms = h->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : h->retry_ms * 2;
}

/* Wishes are not told again, and are cheap to repeat. */
void native_give_up_wishes(struct runtime_host *h, const char *why)
{
	for (struct wish *w; (w = h->wishes);) {
		h->wishes = w->next;
		native_grant(w, -ECONNRESET, why);
	}
}

void native_disconnect(struct runtime_host *h)
{
	if (h->poll) {
		(void)uv_poll_stop(h->poll);
		uv_close((uv_handle_t *)h->poll, free_handle);
		h->poll = NULL;
	}
	native_pulse_stop(h);
	close_fdp(&h->fd);
	drop_unsent(h);
	h->n_runs = 0;
	h->n_attaching = 0;
	for (struct job *j = h->jobs; j; j = j->next) {
		j->is_attaching = false;
		j->needs_attach = true;
	}
}

/* Nobody came back, or nobody whom we understand. */
static void check_gone(struct runtime_host *h)
{
	if (h->broken_ns && clock_monotonic_ns() - h->broken_ns > GONE_NS)
		native_tell_lost(h);
}

static void on_broken(struct runtime_host *h, int r)
{
	bool was_up = h->state == STATE_UP;

	log_warn("the connection to the keeper broke: %s", strerror(-r));
	native_disconnect(h);
	retry_later(h);
	if (!h->broken_ns)
		h->broken_ns = clock_monotonic_ns();
	if (was_up)
		h->listener.down(h->listener.ctx);
	native_give_up_wishes(h, "the keeper is gone");
	check_gone(h);
}

static int read_frames(struct runtime_host *h)
{
	for (int i = 0; i < FRAMES_A_TURN && h->fd >= 0; i++) {
		struct frame f;
		int r = frame_recv(h->fd, h->buffer, &f);

		if (r == -EAGAIN)
			return 0;
		if (r <= 0)
			return r == 0 ? -ECONNRESET : r;
		const char *before = doing_begin("a message of the keeper");
		r = native_understand(h, &f);
		doing_end(before);
		frame_close_fds(&f);
		if (r < 0)
			return r;
	}
	return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct runtime_host *h = poll->data;
	int r = status;

	if (r == 0 && (events & UV_WRITABLE))
		r = flush(h);
	if (r == 0 && (events & UV_READABLE))
		r = read_frames(h);
	if (r < 0 && h->state != STATE_CLOSED && h->poll == poll)
		on_broken(h, r);
}

/* Only who may be our keeper gets to see what we run: ourselves, or root. */
static bool is_trusted(int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static int open_socket(const char *root)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (dir < 0 || fd < 0)
		return -errno;
	/* Through the descriptor, since the path itself may be too long for connect. */
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/keeper.sock", dir);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return is_trusted(fd) ? take_fd(&fd) : -EPERM;
}

void native_connect(struct runtime_host *h)
{
	int fd = open_socket(h->root);

	if (fd < 0) {
		log_debug("connect to the keeper: %s", strerror(-fd));
		retry_later(h);
		check_gone(h);
		return;
	}
	h->fd = fd;
	h->poll = xnew(uv_poll_t);
	(void)uv_poll_init(h->loop, h->poll, fd);
	h->poll->data = h;
	h->state = STATE_GREETING;
	watch(h);
	int r = native_say_nothing(h, MESSAGE_HELLO);
	if (r < 0)
		on_broken(h, r);
	else
		native_pulse_start(h);
}
