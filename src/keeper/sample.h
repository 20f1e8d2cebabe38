/* A keeper for the tests of this directory, with everything but its loop: one
 * client, connected by a socket pair, and boxes whose init is played by the test.
 * A box is a process all the same, one that waits to be killed. */
#pragma once
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/root.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

struct sample {
	struct keeper k;
	struct peer *peer; /* the keeper's side of the client; dangling once dropped */
	int client_fd;
	struct root root; /* "host", of which no box is really made */
};

static inline void sample_insist(bool cond)
{
	if (!cond)
		abort();
}

static inline void sample_pair(int *ret_ours, int *ret_theirs)
{
	int ends[2];

	sample_insist(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
}

/* Connect one more client of user `uid`; its end of the connection. */
static inline int sample_connect(struct sample *s, uid_t uid)
{
	int ours;
	int theirs;

	sample_pair(&ours, &theirs);
	sample_insist(peer_add(&s->k, ours, uid) == 0);
	return theirs;
}

/* Without a state directory; state_open() may add one. */
static inline void sample_open(struct sample *s, uid_t uid)
{
	*s = (struct sample){
		.k = {
			KEEPER_FRESH,
			.listen = { .fd = -1 },
			.signals = { .fd = -1 },
			.lifeline = { .fd = -1 },
			.facets = FACET_ALL & ~FACET_BIT(FACET_LANDLOCK),
		},
		.root = { .image = "host", .ns_fd = -1, .rootfs_fd = -1 },
	};
	s->k.roots = &s->root;
	s->k.buffer = xcalloc(1, FRAME_SIZE_MAX);
	s->k.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	sample_insist(s->k.epoll_fd >= 0);
	s->client_fd = sample_connect(s, uid);
	s->peer = s->k.peers;
}

static inline void sample_bury(struct sample *s)
{
	for (struct ward *r; (r = s->k.dead_runs);) {
		s->k.dead_runs = r->next;
		free(r);
	}
	for (struct peer *p; (p = s->k.dead_peers);) {
		s->k.dead_peers = p->next;
		free(p);
	}
}

static inline void sample_close(struct sample *s)
{
	while (s->k.runs)
		ward_close(&s->k, s->k.runs);
	while (s->k.peers)
		peer_close(&s->k, s->k.peers);
	sample_bury(s);
	boxes_fini(&s->k);
	s->k.roots = NULL;
	state_close(&s->k);
	close_fdp(&s->client_fd);
	close_fdp(&s->k.epoll_fd);
	free(s->k.buffer);
}

/* Handle what is waiting, as the loop would, for at most `ms`. */
static inline void sample_turn(struct sample *s, int ms)
{
	struct epoll_event event;

	while (epoll_wait(s->k.epoll_fd, &event, 1, ms) == 1) {
		struct watch *w = event.data.ptr;

		if (w->fd >= 0)
			w->on_event(&s->k, w->owner, event.events);
		ms = 0;
	}
	sample_bury(s);
}

/* A run without a box and without a client, that lingers; the caller changes what it wants
 * to be different. */
static inline struct ward *sample_run(struct sample *s, const char *id, enum run_state state)
{
	struct ward *r = xnew(struct ward);

	(void)snprintf(r->id, sizeof(r->id), "%s", id);
	memcpy(r->result.id, r->id, sizeof(r->id));
	r->state = state;
	r->lingers = true;
	r->control.fd = r->pid.fd = r->memory.fd = -1;
	r->workspace_fd = -1;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		r->fds[i] = -1;
	r->next = s->k.runs;
	s->k.runs = r;
	s->k.n_runs++;
	return r;
}

/* A box that is to be made on `root`. */
static inline struct boxed *sample_order(const struct root *root)
{
	struct boxed *b = xnew(struct boxed);

	b->root = root;
	b->box = (struct box){ .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	return b;
}

/* Put a box on the shelf whose init the caller plays, on the returned socket. */
static inline int sample_box(struct sample *s)
{
	struct boxed *b = xnew(struct boxed);
	struct spec standard;
	char name[32];
	char byte;
	int control;
	int settled_fd;
	int hold_fd;

	b->box.net_fd = -1;
	sample_pair(&b->box.control_fd, &control);
	(void)snprintf(name, sizeof(name), "box-%llu", (unsigned long long)s->k.n_groups++);
	sample_insist(cgroup_new(s->k.cgroups, name, &b->cgroup, NULL) == 0);
	sample_insist(fd_pipe(&settled_fd, &hold_fd) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		(void)close_range(0, ~0u, 0);
		for (;;)
			(void)pause();
	}
	/* Once it has let go of this, it has let go of every copy of ours. */
	(void)close(hold_fd);
	sample_insist(fd_read_full(settled_fd, &byte, 1) == 0);
	(void)close(settled_fd);
	spec_init(&standard);
	b->limits = standard.limits;
	b->root = &s->root;
	b->box.pid = pid;
	b->box.pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	sample_insist(pid > 0 && b->box.pid_fd >= 0);
	b->next = s->k.ready.boxes;
	s->k.ready.boxes = b;
	s->k.ready.n++;
	return control;
}
