/* Connections as streams of bytes, with or without TLS: what the server stands on. lws.c is
 * the one file behind it, and the only one that knows libwebsockets.
 *
 * A hub owns its wires. All calls come from the loop, and none comes from within a call of
 * ours, so that whoever closes a wire still has it until `closed`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct hub;  /* a listening socket and its connections */
struct wire; /* one connection */
typedef struct uv_loop_s uv_loop_t;

#define WIRE_READ_MAX (64u << 10) /* what one `input` brings at most */

struct wire_ops {
	/* Somebody connected. What is returned, never NULL, goes with the wire's other calls. */
	void *(*opened)(void *ctx, struct wire *w);
	void (*input)(void *conn, const char *data, size_t size);
	/* After wire_want_write(), or when what wire_write() left over is gone. */
	void (*writable)(void *conn);
	/* Whoever ended it. The last call. */
	void (*closed)(void *conn);
	/* Somebody comes, and there are max_connections: true when one was closed instead. */
	bool (*make_room)(void *ctx);
};

struct hub_options {
	const char *host; /* an address, or NULL with `socket` */
	uint16_t port;
	const char *socket; /* path of a UNIX socket; mode 0660; must stay until it is closed */
	const char *tls_cert;
	const char *tls_key;
	unsigned max_connections; /* one more, if there is no room to be made, is told 503, or with
				     TLS just closed */
	unsigned timeout_sec;     /* for a TLS handshake */
	const struct wire_ops *ops;
	void *ctx;
};

/* 0 with a hub that hub_close() ends, or a negative errno. A socket at `socket` on which
 * nobody listens any more is replaced; -EADDRINUSE when somebody does. */
int hub_start(
	uv_loop_t *loop, const struct hub_options *options, struct hub **ret, struct err *err);
uint16_t hub_port(const struct hub *h);

/* Listen on a UNIX socket as well, one that only we and root may use (mode 0600), without TLS:
 * its wires are local. Once. */
int hub_listen_local(struct hub *h, const char *path, struct err *err);

/* The files of sockets go, but for that of hub_listen_local(), which is its owner's. */
void hub_stop_listening(struct hub *h);

/* Close every wire, then the rest; `done` is the last call, and always comes later. */
void hub_close(struct hub *h, void (*done)(void *ctx), void *ctx);

const char *wire_peer(const struct wire *w); /* "127.0.0.1", "::1", "unix" */
bool wire_is_tls(const struct wire *w);
bool wire_is_local(const struct wire *w); /* came by hub_listen_local() */

/* Send. True when the kernel took all of it; otherwise the rest was copied and goes out when
 * the peer takes it, `writable` follows, and the caller had better write no more until then. */
bool wire_write(struct wire *w, const void *data, size_t size);
void wire_want_write(struct wire *w);

/* Whether something of wire_write() still waits for the peer. */
bool wire_is_blocked(const struct wire *w);

/* No `input` until it is resumed. */
void wire_pause(struct wire *w, bool on);

/* Tell the peer at once that what it sent is here. One that sends a head and then a body holds
 * the body back until it knows; the kernel would take its time, in case we have an answer that
 * could tell it as well. */
void wire_acknowledge(struct wire *w);

/* We shall send no more; the peer may. */
void wire_shutdown(struct wire *w);

/* Drop it, with what still waits; `closed` follows. Any number of times. */
void wire_close(struct wire *w);
