/* Connected clients: who they are, what they may say now, and their end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

static void on_readable(struct keeper *k, void *owner, uint32_t events)
{
	struct peer *p = owner;
	struct frame f;

	(void)events;
	if (p->closed)
		return;
	int r = frame_recv(p->watch.fd, k->buffer, &f);
	if (r == -EAGAIN)
		return;
	if (r == 1) {
		r = rules_dispatch(k, p, &f);
		frame_close_fds(&f);
		/* It may have held an environment, and boxes are cloned from this memory. */
		explicit_bzero(k->buffer, (size_t)(f.data - k->buffer) + f.size);
		if (r == 0)
			return;
	}
	/* A client that died with something unread is no event, only gone. */
	if (r < 0 && r != -ECONNRESET)
		log_warn("event=bad_ipc uid=%u: dropping a client: %s", (unsigned)p->uid,
			strerror(-r));
	peer_close(k, p);
}

int peer_add(struct keeper *k, int fd, uid_t uid)
{
	struct peer *p = xnew(struct peer);

	p->phase = PEER_NEW;
	p->uid = uid;
	p->watch =
		(struct watch){ .fd = -1, .name = "a client", .on_event = on_readable, .owner = p };
	int r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = watch_start(k, &p->watch, fd, EPOLLIN);
	if (r < 0) {
		free(p);
		return r;
	}
	p->next = k->peers;
	k->peers = p;
	k->n_peers++;
	return 0;
}

static void unlink_peer(struct keeper *k, struct peer *p)
{
	for (struct peer **at = &k->peers; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			k->n_peers--;
			return;
		}
	}
}

void peer_close(struct keeper *k, struct peer *p)
{
	if (p->closed)
		return;
	p->closed = true;
	int fd = p->watch.fd;
	watch_stop(k, &p->watch);
	(void)close(fd);
	unlink_peer(k, p);
	p->next = k->dead_peers;
	k->dead_peers = p;
	for (struct ward *r = k->runs, *next; r; r = next) {
		next = r->next;
		if (r->peer == p)
			ward_orphan(k, r);
	}
}

void peer_send(struct keeper *k, struct peer *p, uint32_t type, const struct put *payload,
	const int *fds, size_t n_fds)
{
	if (p->closed)
		return;
	int r = frame_send(p->watch.fd, type, payload, fds, n_fds);
	if (r < 0) {
		if (r != -EPIPE && r != -ECONNRESET)
			log_warn("uid=%u: dropping a client that does not read: %s",
				(unsigned)p->uid, strerror(-r));
		peer_close(k, p);
	}
}
