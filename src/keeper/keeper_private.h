/* What the files of the keeper share. An object is owned by the list it is in;
 * one that dies while events are being handled goes to the keeper's graveyard
 * and is freed when they all are, since a later event may still point to it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "box/disposer.h"
#include "box/maker.h"
#include "box/workspace.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/result.h"
#include "ipc/spec.h"
#include "keeper/boxes.h"
#include "keeper/orders.h"
#include "keeper/pace.h"
#include "keeper/stock.h"

struct cgroup_host;
struct cgroup_stats;
struct cur;
struct err;
struct keeper;

/* Limits of the keeper itself. */
#define PEERS_MAX  256u
#define RUNS_MAX   4096u
#define EVENTS_MAX 64

/* A descriptor in the epoll set and what to call for it. */
struct watch {
	int fd;           /* -1 when not watched */
	const char *name; /* what is done when it has events; static text */
	void (*on_event)(struct keeper *k, void *owner, uint32_t events);
	void *owner;
};

int watch_start(struct keeper *k, struct watch *w, int fd, uint32_t events);
void watch_stop(struct keeper *k, struct watch *w);

enum peer_phase {
	PEER_NEW = 1,
	PEER_READY = 2,
};

/* A connected client. */
struct peer {
	struct peer *next;
	struct watch watch;
	enum peer_phase phase;
	uid_t uid;
	bool hears_warmth; /* it said what to make ahead */
	bool closed;
};

/* Why a run is being ended; the first cause stays. */
enum cause {
	CAUSE_NONE,
	CAUSE_STARTUP_TIMEOUT,
	CAUSE_TIMEOUT,
	CAUSE_CANCEL,
	CAUSE_OOM,
	CAUSE_CLIENT_GONE,
};

struct ward {
	struct ward *next;
	struct peer *peer; /* who hears of it; NULL when nobody does */
	uid_t owner;
	char id[RUN_ID_SIZE + 1];
	struct limits limits;
	bool lingers;
	bool exec;                   /* files of its workspace can be executed */
	bool is_python;              /* of which there may be a template */
	bool captures;               /* files, or their names: init says when all were sent */
	bool owes_files;             /* ... files, which it has not sent yet */
	struct workspace *workspace; /* one that outlives it; NULL: its own */
	int workspace_fd;            /* its mount, if init is still to ask for it; else -1 */
	enum run_state state;

	struct boxed *boxed; /* NULL once it is over */
	struct watch control;
	struct watch pid;
	struct watch memory;
	int fds[CHANNEL_COUNT]; /* duplicates of the client's ends, for coming back */

	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0 for none */
	uint64_t started_mono_ns;
	uint64_t ended_mono_ns;
	enum cause cause;
	bool kill_sent;  /* by asking init */
	bool killed;     /* by force, when asking did not help */
	bool has_status; /* init reported how the guest ended */
	bool has_failed; /* init reported that it never started */
	int status;
	uint64_t sampled_processes;
	struct result result;
	bool closed;
};

/* A workspace that outlives its runs; see box/workspace.h for the file system. */
struct workspace {
	struct workspace *next;
	char id[WORKSPACE_ID_SIZE + 1];
	uid_t owner;    /* the client */
	uid_t uid;      /* of its boxes; BOX_ANY_UID: each gets a mount for the user it has */
	uint64_t bytes; /* its size now: as the last run had it, or what it holds if that is more */
	const struct ward *filler; /* has room for files beside those that they replace; or NULL */
};

struct template;

/* Who makes boxes ahead for us. */
struct making {
	struct maker maker;
	struct watch watch;
	struct orders orders;
	uint64_t started_ns; /* CLOCK_MONOTONIC; 0: never */
	bool is_dying;       /* it was killed, and is yet to be reaped */
	size_t n_strays;     /* so many children of ours may be in no list */
};

struct keeper {
	struct box_host host;
	struct cgroup_host *cgroups;
	struct root *roots;
	uint64_t facets;
	char *root_dir;
	int root_fd;
	int images_fd; /* -1 when there are none */
	int lock_fd;
	char id[KEEPER_ID_SIZE + 1];
	uid_t uid;

	int epoll_fd;
	struct watch listen;
	int deaf_fd;            /* the listening socket while it is not watched, else -1 */
	uint64_t deaf_until_ns; /* CLOCK_MONOTONIC */
	uint64_t mentioned_ns;  /* when strangers were last logged, likewise */
	uint64_t n_unmentioned;
	struct watch signals;
	struct watch lifeline;
	struct watch trial;
	bool owns_socket; /* keeper.sock is ours to remove */
	bool ends_when_idle;
	uint64_t workspaces_ns; /* for how long workspaces are kept without a client; 0: for ever */
	uint64_t idle_since_ns; /* CLOCK_MONOTONIC; 0: it is not */
	bool stopping;

	struct pace pace; /* what the loop is at */

	struct peer *peers;
	size_t n_peers;
	struct ward *runs;
	size_t n_runs;
	struct peer *dead_peers;
	struct ward *dead_runs;
	struct making making;
	struct stock ready;     /* made ahead */
	struct stock clones;    /* the same of a template */
	struct warm_state told; /* what was last said about these */
	uint64_t told_ns;       /* and when, CLOCK_MONOTONIC */
	struct boxed *busy;     /* serving a run */
	struct boxed *retired;  /* to be reaped and removed */
	size_t n_retired;
	bool makes_ready;               /* boxes are made ahead */
	bool is_quiet;                  /* nothing happened for a moment */
	const struct root *host_root;   /* of which templates are, and no other */
	const struct root *favourite;   /* what to make ahead; NULL for nothing */
	struct limits favourite_limits; /* those of the last run: the next often has the same */
	enum seal favours;              /* what suits a run like the last one */
	uint64_t n_groups;

	struct warm warm;
	const void *warm_library;
	size_t warm_library_size;
	struct template *templates; /* that which serves comes first */
	uint64_t n_templates;
	int library_fd; /* -1 until the first is started */
	uint64_t template_retry_ms;
	uint64_t template_not_before_ns; /* CLOCK_MONOTONIC */

	struct workspace_home workspace_home; /* of the workspaces below */
	struct disposer disposer;             /* frees what they held */
	struct workspace *workspaces;
	size_t n_workspaces;

	uint8_t *buffer; /* FRAME_SIZE_MAX, for whatever is being received */
};

/* What each keeper begins with: nothing is open, and boxes are made ahead. */
#define KEEPER_FRESH                                                                               \
	.root_fd = -1, .images_fd = -1, .lock_fd = -1, .library_fd = -1,                           \
	.host = { .home_ns_fd = -1 }, .warm = { .warmth = WARM_BOXES },                            \
	.ready = { .n_max = STOCK_MIN }, .making = { .maker.control_fd = -1, .watch.fd = -1 }

/* peer.c */
int peer_add(struct keeper *k, int fd, uid_t uid);
void peer_close(struct keeper *k, struct peer *p);
/* Send, or close the peer when it does not read. */
void peer_send(struct keeper *k, struct peer *p, uint32_t type, const struct put *payload,
	const int *fds, size_t n_fds);

/* rules.c: the whole attack surface. Returns a negative errno when the peer must
 * be dropped. */
int rules_dispatch(struct keeper *k, struct peer *p, struct frame *f);

/* ward.c */
struct ward *ward_find(struct keeper *k, const char *id);
/* Room in a limit of processes for the init of the box, where a cgroup counts it. */
void ward_count_init(const struct keeper *k, struct limits *l);
int ward_start(struct keeper *k, struct peer *p, struct spec *spec, enum reason *ret_reason,
	struct err *err);
void ward_signal(struct keeper *k, struct ward *r, int sig);
/* Where boxes can not be frozen it goes on; ward_tell_used() says so. Whatever its init is asked
 * for thaws it. */
void ward_freeze(struct ward *r);
void ward_thaw(struct ward *r);
void ward_cancel(struct keeper *k, struct ward *r, enum cause cause);
int ward_attach(struct keeper *k, struct ward *r, struct peer *p, struct err *err);
void ward_orphan(struct keeper *k, struct ward *r); /* its peer is gone */
void ward_close(struct keeper *k, struct ward *r);  /* forget it; kills what lives */
void ward_on_memory(struct ward *r);
void ward_on_deadline(struct keeper *k, struct ward *r);
void ward_set_deadline(struct ward *r, uint64_t from_ns, uint64_t ms);
/* The same, unless it is to end earlier already. */
void ward_shorten_deadline(struct ward *r, uint64_t from_ns, uint64_t ms);
/* No guest lives any more: tell how it ended, let the box go, keep the result. */
void ward_finish(struct keeper *k, struct ward *r);

/* ward_hear.c */
void ward_hear_prepare(struct ward *r); /* its watches, none of them started yet */

/* ward_tell.c; when nobody hears of the run, they do nothing. */
void ward_tell_started(struct keeper *k, struct ward *r);
void ward_tell_running(struct keeper *k, struct ward *r);
void ward_tell_ended(struct keeper *k, struct ward *r);
/* A client that may not come back needs no duplicates of what it was sent; and while
 * we hold one of the write ends, the reader never sees its end. */
void ward_drop_duplicates(struct ward *r);
void ward_tell_used(struct keeper *k, struct ward *r);

/* verdict.c: how it ended, from all that is known; the second is the part that does
 * not look at the box, with what its cgroup counted. */
void verdict_reach(struct ward *r);
void verdict_decide(struct ward *r, const struct cgroup_stats *stats);

/* workspaces.c */
struct workspace *workspaces_find(struct keeper *k, const char *id, uid_t owner);
int workspaces_add(struct keeper *k, const char *id, uid_t owner, uint64_t bytes, struct err *err);
void workspaces_drop(struct keeper *k, struct workspace *w);
void workspaces_drop_all(struct keeper *k);
/* The mount of the run's workspace, for a box that is to do what `spec` says, with the size that
 * this takes. */
int workspaces_open(
	struct keeper *k, struct ward *r, const struct spec *spec, int *ret_fd, struct err *err);
/* The run is done with its workspace, if it has one: that has its proper size again, and is not
 * the run's any more. */
void workspaces_settle(struct keeper *k, struct ward *r);

/* boxes_tell.c: for who wants to know what waits, if it is time to. */
void boxes_tell(struct keeper *k);
/* When that will be; -1: nothing is new. */
int boxes_news_ms(const struct keeper *k);

/* making.c */

/* Ask the maker for a box; boxes_add_ready() hears of it. On failure `b` is as it was. */
int making_ask(struct keeper *k, struct boxed *b, const struct box_order *order, struct err *err);
/* Boxes that are to come. */
const struct orders *making_orders(const struct keeper *k);
/* Be rid of one that hangs, and of what one that is gone has left. */
void making_tend(struct keeper *k);
/* Whether it is to be tended to before long. */
bool making_pending(const struct keeper *k);
/* Reap what no list knows; false when there is no such thing. */
bool making_seek_strays(struct keeper *k);
void making_fini(struct keeper *k);

/* templates.c */

/* How many boxes are made of one, and for how long it serves. */
#define TEMPLATE_BOXES_MAX 4096u
#define TEMPLATE_AGE_MS    UINT64_C(600000)

/* Have one, if that is wanted, and be rid of those that are done with. */
void templates_tend(struct keeper *k);
/* It could not be asked for a box: not again for a while. */
void templates_fail(struct keeper *k, const char *why);
bool templates_ready(const struct keeper *k);
bool templates_pending(const struct keeper *k);                /* there is none, and should be */
const struct orders *templates_orders(const struct keeper *k); /* boxes that are to come */
/* Whether this is the process of one. */
bool templates_have(const struct keeper *k, pid_t pid);
/* Ask for a box of the user `uid`; it is boxes_add_warm()ed when it is there. */
int templates_ask(struct keeper *k, struct boxed *b, uid_t uid, struct err *err);
/* A network that nobody is in any more, of a box of template `id`. Takes the descriptor. */
void templates_give_net(struct keeper *k, uint64_t id, int fd);
/* That which serves is not wanted any more. */
void templates_dismiss(struct keeper *k);
void templates_fini(struct keeper *k);

/* images.c */
int images_find_root(struct keeper *k, const char *image, struct root **ret, struct err *err);
void images_expire(struct keeper *k);

/* state.c: the state directory, its lock, and what a killed predecessor left. */
int state_open(struct keeper *k, const char *root, struct err *err);
int state_listen(struct keeper *k, int *ret_fd, struct err *err);
/* Whether somebody has removed the state directory, or moved it away. */
bool state_is_gone(const struct keeper *k);
void state_close(struct keeper *k);
