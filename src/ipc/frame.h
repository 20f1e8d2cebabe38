/* One message on a SOCK_SEQPACKET socket: a header with version and type, a
 * payload, and descriptors. The kernel keeps the borders between messages. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct put;

#define FRAME_FDS_MAX  8
#define FRAME_SIZE_MAX (200u << 10) /* below the default socket buffer */

struct frame {
	uint32_t type;
	const uint8_t *data; /* payload, inside the buffer given to frame_recv() */
	size_t size;
	int fds[FRAME_FDS_MAX];
	size_t n_fds;
};

/* Send a message; `payload` and `fds` may be NULL. The descriptors stay the
 * caller's. 0, -EAGAIN when the socket is full and non-blocking, -EPIPE when the
 * peer is gone, or another negative errno. Never raises SIGPIPE. */
int frame_send(int sock, uint32_t type, const struct put *payload, const int *fds, size_t n_fds);

/* Receive one message into `buffer` of FRAME_SIZE_MAX bytes. Returns 1, or 0 at
 * the end of the connection, -EAGAIN when there is none, -EPROTO when the peer
 * speaks another version, -EBADMSG when it is no message of ours. Descriptors in
 * `ret` belong to the caller: take_fd() or frame_close_fds(). */
int frame_recv(int sock, uint8_t *buffer, struct frame *ret);

/* The same, but some or all descriptors may be missing: those which we may not have any more. */
int frame_recv_lossy(int sock, uint8_t *buffer, struct frame *ret);

/* Close the descriptors that nobody took. */
void frame_close_fds(struct frame *f);
