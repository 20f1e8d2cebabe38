#include "ipc/frame.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "ipc/cur.h"
#include "ipc/message.h"

struct header {
	uint32_t version;
	uint32_t type;
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * FRAME_FDS_MAX)];
};

int frame_send(int sock, uint32_t type, const struct put *payload, const int *fds, size_t n_fds)
{
	struct header head = { htole32(MESSAGE_VERSION), htole32(type) };
	struct iovec parts[2] = { { &head, sizeof(head) }, { 0 } };
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = 1 };
	union control control = { 0 };

	if (payload) {
		if (put_end(payload) < 0 || payload->size > FRAME_SIZE_MAX - sizeof(head))
			return -E2BIG;
		parts[1] = (struct iovec){ payload->data, payload->size };
		msg.msg_iovlen = 2;
	}
	if (n_fds > FRAME_FDS_MAX)
		return -E2BIG;
	if (n_fds > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		if (sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

/* Descriptors are collected before anything is judged: whatever the peer sent is
 * then ours to close. */
static void collect_fds(struct msghdr *msg, struct frame *f)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n && f->n_fds < FRAME_FDS_MAX; i++) {
			memcpy(&f->fds[f->n_fds], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			f->n_fds++;
		}
	}
}

/* `bad_flags` are those of a message that is not whole. */
static int check_frame(const struct msghdr *msg, int bad_flags, const uint8_t *buffer, size_t size,
	struct frame *f)
{
	struct header head;

	if (size < sizeof(head) || (msg->msg_flags & bad_flags))
		return -EBADMSG;
	memcpy(&head, buffer, sizeof(head));
	if (le32toh(head.version) != MESSAGE_VERSION)
		return -EPROTO;
	f->type = le32toh(head.type);
	f->data = buffer + sizeof(head);
	f->size = size - sizeof(head);
	return 1;
}

static int receive(int sock, int bad_flags, uint8_t *buffer, struct frame *ret)
{
	union control control;
	struct iovec part = { buffer, FRAME_SIZE_MAX };
	struct msghdr msg = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct frame f = { 0 };
	ssize_t n;

	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	collect_fds(&msg, &f);
	if (n == 0 && f.n_fds == 0)
		return 0;
	int r = check_frame(&msg, bad_flags, buffer, (size_t)n, &f);
	if (r < 0) {
		frame_close_fds(&f);
		return r;
	}
	*ret = f;
	return 1;
}

int frame_recv(int sock, uint8_t *buffer, struct frame *ret)
{
	return receive(sock, MSG_TRUNC | MSG_CTRUNC, buffer, ret);
}

int frame_recv_lossy(int sock, uint8_t *buffer, struct frame *ret)
{
	return receive(sock, MSG_TRUNC, buffer, ret);
}

void frame_close_fds(struct frame *f)
{
	for (size_t i = 0; i < f->n_fds; i++)
		close_fdp(&f->fds[i]);
	f->n_fds = 0;
}
