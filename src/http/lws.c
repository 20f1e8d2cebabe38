/* Sockets and TLS by libwebsockets, on a libuv loop that is not its own.
 *
 * Only its "raw socket" role is used. Its HTTP role decodes the path before anybody sees where
 * the slashes were, can not read a chunked body, answers no `Expect`, and takes what follows
 * such a body for a request; our own parsers (head.c, chunk.c, frame.c) are strict there, and
 * can be fuzzed. Listening is ours as well, because libwebsockets can not stop listening and
 * keep its connections.
 *
 * Two habits of libwebsockets shape this file. A connection with output it could not send is
 * not read, but still polled for input, which would spin: so it is paused meanwhile. And a
 * context on a foreign loop is destroyed by asking twice, with turns of the loop between. */
#include <arpa/inet.h>
#include <errno.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "http/listen.h"
#include "http/wire.h"

#define ACCEPT_BATCH    64  /* connections taken before others get their turn */
#define ACCEPT_RETRY_MS 200 /* when we are out of descriptors */
#define DESTROY_TURNS   3   /* of the loop, until the handles of a context are closed */
#define DESTROY_GIVE_UP 1000

static const char protocol_name[] = "belljar";

struct wire {
	struct hub *hub;
	struct lws *wsi;
	void *conn;
	LIST_ENTRY(wire) all;
	LIST_ENTRY(wire) ready; /* those that is_ready */
	bool in_callback;
	bool is_ready; /* wants to write, and may */
	bool has_spoken;
	bool is_closing;
	bool is_paused;  /* by our user */
	bool is_stopped; /* libwebsockets was told to read no more */
	bool is_local;
	char peer[INET6_ADDRSTRLEN];
};

/* A socket that connections come from. */
struct listener {
	struct hub *hub;
	uv_poll_t poll;
	int fd; /* -1: not, or no longer */
	bool is_local;
};

struct hub {
	uv_loop_t *loop;
	struct lws_context *context;
	struct lws_vhost *vhost;
	const struct wire_ops *ops;
	void *ctx;
	struct listener main;
	struct listener local; /* its handle is there once it was opened */
	bool has_local;
	const char *socket; /* the path of `main`, or NULL */
	uint16_t port;
	bool is_tls;
	bool is_closing;
	unsigned max_connections;
	unsigned n_wires;
	unsigned n_wsi; /* those of libwebsockets, which outlive their wires by a turn */
	LIST_HEAD(, wire) wires;
	LIST_HEAD(, wire) ready;
	struct wire *adopting;
	uv_timer_t retry; /* accepting, and when closing, the destruction */
	uv_idle_t idle;   /* runs while a wire waits to write or to be closed */
	bool has_closing;
	unsigned n_turns;
	unsigned n_handles;
	void (*done)(void *ctx);
	void *done_ctx;
};

/* --- one wire --- */

const char *wire_peer(const struct wire *w)
{
	return w->peer;
}

bool wire_is_tls(const struct wire *w)
{
	return w->hub->is_tls && !w->is_local;
}

bool wire_is_local(const struct wire *w)
{
	return w->is_local;
}

bool wire_is_blocked(const struct wire *w)
{
	return !w->is_closing && lws_partial_buffered(w->wsi);
}

/* Read only while the user wants to, and nothing is stuck. */
static void update_flow(struct wire *w)
{
	bool stop = w->is_paused || lws_partial_buffered(w->wsi);

	if (w->is_closing || stop == w->is_stopped)
		return;
	w->is_stopped = stop;
	(void)lws_rx_flow_control(w->wsi, !stop);
}

static void on_idle(uv_idle_t *idle);

static void close_later(struct wire *w)
{
	w->hub->has_closing = true;
	(void)uv_idle_start(&w->hub->idle, on_idle);
}

void wire_close(struct wire *w)
{
	if (w->is_closing)
		return;
	w->is_closing = true;
	if (!w->in_callback)
		close_later(w);
}

bool wire_write(struct wire *w, const void *data, size_t size)
{
	if (w->is_closing)
		return true; /* as if it went: `closed` is on its way */
	/* The raw role writes what it is given as it is, and never into it. */
	if (size > 0 && lws_write(w->wsi, (unsigned char *)data, size, LWS_WRITE_RAW) < 0) {
		wire_close(w);
		return true;
	}
	update_flow(w);
	return !lws_partial_buffered(w->wsi);
}

/* Most sockets can take more. So instead of asking the kernel, which costs three system calls
 * for each, just try in the next turn; who is stuck is called by libwebsockets. */
void wire_want_write(struct wire *w)
{
	if (w->is_closing || w->is_ready || lws_partial_buffered(w->wsi))
		return;
	w->is_ready = true;
	LIST_INSERT_HEAD(&w->hub->ready, w, ready);
	(void)uv_idle_start(&w->hub->idle, on_idle);
}

static void not_ready(struct wire *w)
{
	if (w->is_ready)
		LIST_REMOVE(w, ready);
	w->is_ready = false;
}

void wire_pause(struct wire *w, bool on)
{
	w->is_paused = on;
	update_flow(w);
}

void wire_acknowledge(struct wire *w)
{
	int on = 1;

	/* Fails for a UNIX socket, which has no such habits. */
	if (!w->is_closing)
		(void)setsockopt(
			lws_get_socket_fd(w->wsi), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

void wire_shutdown(struct wire *w)
{
	if (!w->is_closing && !wire_is_tls(w))
		(void)shutdown(lws_get_socket_fd(w->wsi), SHUT_WR);
}

static void wire_free(struct wire *w)
{
	struct hub *h = w->hub;

	not_ready(w);
	LIST_REMOVE(w, all);
	h->n_wires--;
	free(w);
}

static struct wire *wire_new(struct hub *h, const struct sockaddr_storage *peer, bool is_local)
{
	struct wire *w = xnew(struct wire);

	w->hub = h;
	w->is_local = is_local;
	LIST_INSERT_HEAD(&h->wires, w, all);
	h->n_wires++;
	listen_format_peer(peer, w->peer, sizeof(w->peer));
	return w;
}

/* --- what libwebsockets tells --- */

static int on_input(struct wire *w, const void *data, size_t size)
{
	/* Its clock for the TLS handshake goes on to wait for HTTP; ours takes over. */
	if (!w->has_spoken)
		lws_set_timeout(w->wsi, NO_PENDING_TIMEOUT, 0);
	w->has_spoken = true;
	if (!w->is_closing)
		w->hub->ops->input(w->conn, data, size);
	return 0;
}

static int on_writable(struct wire *w, const void *data, size_t size)
{
	(void)data;
	(void)size;
	update_flow(w);
	if (!w->is_closing)
		w->hub->ops->writable(w->conn);
	return 0;
}

static int on_gone(struct wire *w)
{
	struct hub *h = w->hub;

	w->is_closing = true;
	if (h->adopting == w)
		h->adopting = NULL;
	if (wire_is_tls(w) && !w->has_spoken && !h->is_closing)
		log_info("%s went without a TLS handshake: it may have meant http://, or not "
			 "trust the certificate",
			w->peer);
	h->ops->closed(w->conn);
	wire_free(w);
	return 0;
}

typedef int wire_event_fn(struct wire *w, const void *data, size_t size);

static int tell(struct wire *w, wire_event_fn *event, const void *data, size_t size)
{
	w->in_callback = true;
	int r = event(w, data, size);
	w->in_callback = false;
	return w->is_closing ? -1 : r;
}

static int on_event(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *data, size_t size)
{
	struct wire *w = lws_get_opaque_user_data(wsi);

	(void)user;
	if (reason == LWS_CALLBACK_WSI_DESTROY) {
		struct hub *h = lws_context_user(lws_get_context(wsi));
		h->n_wsi--;
		return 0;
	}
	if (!w)
		return 0;
	w->wsi = wsi; /* the first events come before we are told who it is */
	if (reason == LWS_CALLBACK_RAW_RX)
		return tell(w, on_input, data, size);
	if (reason == LWS_CALLBACK_RAW_WRITEABLE)
		return tell(w, on_writable, NULL, 0);
	if (reason == LWS_CALLBACK_RAW_CLOSE) {
		lws_set_opaque_user_data(wsi, NULL);
		return on_gone(w);
	}
	return 0;
}

/* --- what could not be done at once --- */

static void close_some(struct hub *h)
{
	struct wire *next = NULL;

	h->has_closing = false;
	for (struct wire *w = LIST_FIRST(&h->wires); w; w = next) {
		next = LIST_NEXT(w, all);
		if (w->is_closing)
			lws_set_timeout(w->wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, LWS_TO_KILL_SYNC);
	}
}

static void on_idle(uv_idle_t *idle)
{
	struct hub *h = idle->data;
	LIST_HEAD(, wire) ready;

	/* Who asks again meanwhile has to wait for the next turn. */
	LIST_INIT(&ready);
	for (struct wire *w; (w = LIST_FIRST(&h->ready));) {
		LIST_REMOVE(w, ready);
		LIST_INSERT_HEAD(&ready, w, ready);
	}
	for (struct wire *w; (w = LIST_FIRST(&ready));) {
		not_ready(w);
		if (tell(w, on_writable, NULL, 0) < 0)
			h->has_closing = true;
	}
	if (h->has_closing)
		close_some(h);
	if (LIST_EMPTY(&h->ready) && !h->has_closing)
		(void)uv_idle_stop(idle);
}

/* --- accepting --- */

static void adopt(struct hub *h, int fd, const struct sockaddr_storage *peer, bool is_local)
{
	struct wire *w = wire_new(h, peer, is_local);
	lws_adopt_desc_t info = {
		.vh = h->vhost,
		.type = LWS_ADOPT_SOCKET | (wire_is_tls(w) ? LWS_ADOPT_ALLOW_SSL : 0),
		.fd = { .sockfd = fd },
		.vh_prot_name = protocol_name,
		.opaque = w,
	};

	h->adopting = w;
	h->n_wsi++;
	w->in_callback = true;
	w->conn = h->ops->opened(h->ctx, w);
	w->wsi = lws_adopt_descriptor_vhost_via_info(&info);
	w = h->adopting; /* NULL when it failed late, and was told */
	h->adopting = NULL;
	if (!w)
		return;
	w->in_callback = false;
	if (!w->wsi) {
		h->ops->closed(w->conn);
		wire_free(w);
	} else if (w->is_closing) {
		close_later(w);
	}
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void listener_resume(struct listener *l)
{
	if (l->fd >= 0)
		(void)uv_poll_start(&l->poll, UV_READABLE, on_listener);
}

static void listener_stop(struct listener *l)
{
	if (l->fd < 0)
		return;
	(void)uv_poll_stop(&l->poll);
	close_fdp(&l->fd);
}

static void on_retry(uv_timer_t *timer)
{
	struct hub *h = timer->data;

	listener_resume(&h->main);
	listener_resume(&h->local);
}

/* Out of descriptors or memory: the kernel keeps those who wait, and we look again soon. */
static void back_off(struct listener *l, int code)
{
	log_warn("can not accept connections for now: %s", strerror(code));
	(void)uv_poll_stop(&l->poll);
	(void)uv_timer_start(&l->hub->retry, on_retry, ACCEPT_RETRY_MS, 0);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;
	struct hub *h = l->hub;

	(void)events;
	for (int i = 0; status == 0 && l->fd >= 0 && i < ACCEPT_BATCH; i++) {
		struct sockaddr_storage peer = { 0 };
		int fd = listen_accept(l->fd, &peer);

		if (fd == -EAGAIN)
			return;
		if (fd == -ECONNABORTED || fd == -EINTR || fd == -EPROTO || fd == -EPERM)
			continue;
		if (fd < 0) {
			back_off(l, -fd);
			return;
		}
		if (h->n_wires >= h->max_connections && !h->ops->make_room(h->ctx))
			listen_refuse(fd, h->is_tls && !l->is_local);
		else
			adopt(h, fd, &peer, l->is_local);
	}
}

/* --- the hub --- */

static void on_lws_log(int level, const char *line)
{
	if (level == LLL_ERR || level == LLL_WARN)
		log_warn("libwebsockets: %.*s", (int)strcspn(line, "\n"), line);
	else
		log_debug("libwebsockets: %.*s", (int)strcspn(line, "\n"), line);
}

static const struct lws_protocols protocols[] = {
	{ .name = protocol_name, .callback = on_event, .tx_packet_size = 1 << 20 },
	{ 0 },
};

static int make_context(struct hub *h, const struct hub_options *o, struct err *err)
{
	void *loops[] = { h->loop };
	struct lws_context_creation_info info = {
		.port = CONTEXT_PORT_NO_LISTEN_SERVER,
		.protocols = protocols,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			   LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS,
		.foreign_loops = loops,
		.pt_serv_buf_size = WIRE_READ_MAX,
		.timeout_secs = o->timeout_sec,
		.alpn = "http/1.1",
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
		.user = h,
		.pcontext = &h->context,
	};

	lws_set_log_level(LLL_ERR | LLL_WARN | LLL_NOTICE, on_lws_log);
	if (h->is_tls)
		info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
	h->context = lws_create_context(&info);
	if (!h->context)
		return err_set(err, -EIO,
			"libwebsockets does not start; is libwebsockets-evlib-uv installed?");
	info.vhost_name = "default";
	info.ssl_cert_filepath = o->tls_cert;
	info.ssl_private_key_filepath = o->tls_key;
	h->vhost = lws_create_vhost(h->context, &info);
	if (!h->vhost)
		return err_set(err, -EINVAL, "can not use the certificate '%s' with the key '%s'",
			o->tls_cert ? o->tls_cert : "", o->tls_key ? o->tls_key : "");
	return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct hub *h = handle->data;

	if (--h->n_handles > 0)
		return;
	close_fdp(&h->main.fd);
	close_fdp(&h->local.fd);
	if (h->done)
		h->done(h->done_ctx);
	free(h);
}

static void close_handles(struct hub *h)
{
	h->main.poll.data = h->local.poll.data = h;
	uv_close((uv_handle_t *)&h->main.poll, on_handle_closed);
	if (h->has_local)
		uv_close((uv_handle_t *)&h->local.poll, on_handle_closed);
	uv_close((uv_handle_t *)&h->retry, on_handle_closed);
	uv_close((uv_handle_t *)&h->idle, on_handle_closed);
}

static void on_destroy_turn(uv_timer_t *timer)
{
	struct hub *h = timer->data;

	if (h->context && h->n_wsi > 0)
		return;
	h->n_turns++;
	if (h->context && (h->n_turns == 1 || h->n_turns > DESTROY_TURNS))
		lws_context_destroy(h->context);
	if (h->context && h->n_turns < DESTROY_GIVE_UP)
		return;
	if (h->context)
		log_warn("libwebsockets does not let go of its context, ignoring");
	close_handles(h);
}

/* Takes the socket. None of these calls can fail: it is one that epoll takes. */
static void init_listener(struct hub *h, struct listener *l, int fd)
{
	l->hub = h;
	l->fd = fd;
	(void)uv_poll_init(h->loop, &l->poll, fd);
	l->poll.data = l;
	h->n_handles++;
}

static void init_handles(struct hub *h)
{
	(void)uv_timer_init(h->loop, &h->retry);
	(void)uv_idle_init(h->loop, &h->idle);
	h->retry.data = h->idle.data = h;
	h->n_handles += 2;
}

static void begin_destroy(struct hub *h)
{
	h->is_closing = true;
	(void)uv_timer_start(&h->retry, on_destroy_turn, 0, 1);
}

int hub_start(uv_loop_t *loop, const struct hub_options *options, struct hub **ret, struct err *err)
{
	AUTO_FD fd = listen_open(options->host, options->port, options->socket, err);

	if (fd < 0)
		return fd;
	struct hub *h = xnew(struct hub);
	h->loop = loop;
	h->ops = options->ops;
	h->ctx = options->ctx;
	h->is_tls = options->tls_cert != NULL;
	h->max_connections = options->max_connections;
	h->port = listen_port(fd);
	h->socket = options->socket;
	h->local.fd = -1;
	init_listener(h, &h->main, take_fd(&fd));
	init_handles(h);
	int r = make_context(h, options, err);
	if (r < 0) {
		hub_stop_listening(h);
		begin_destroy(h);
		return r;
	}
	listener_resume(&h->main);
	*ret = h;
	return 0;
}

int hub_listen_local(struct hub *h, const char *path, struct err *err)
{
	int fd = listen_open_local(path, err);

	if (fd < 0)
		return fd;
	init_listener(h, &h->local, fd);
	h->has_local = h->local.is_local = true;
	listener_resume(&h->local);
	return 0;
}

uint16_t hub_port(const struct hub *h)
{
	return h->port;
}

void hub_stop_listening(struct hub *h)
{
	if (h->socket && h->main.fd >= 0)
		listen_remove(h->socket); /* while it can be told that it is ours */
	listener_stop(&h->main);
	listener_stop(&h->local);
	if (!h->is_closing)
		(void)uv_timer_stop(&h->retry);
}

void hub_close(struct hub *h, void (*done)(void *ctx), void *ctx)
{
	hub_stop_listening(h);
	h->done = done;
	h->done_ctx = ctx;
	for (struct wire *w = LIST_FIRST(&h->wires); w; w = LIST_NEXT(w, all))
		wire_close(w);
	begin_destroy(h);
}
