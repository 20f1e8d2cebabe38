/* One connection of the Fathom protocol: it hears, has executions, and lets them speak in turns.
 * When the client is gone it stays, until its executions are over, or were ended. */
#pragma once
#include <sys/queue.h>

struct exchange;
struct fathom_visitor;
struct ratelimit;
struct service;

/* Answers that wait for a client who asks and does not read; one more closes. */
#define DOOR_ANSWERS_MAX 1024u

LIST_HEAD(doors, door);

struct door_place {
	struct service *service;
	struct ratelimit *per_user;
	struct doors doors;
	/* One of them is gone. */
	void (*gone)(void *ctx);
	void *ctx;
};

/* Accept the upgrade, in the list of `place`, which must outlive it. */
void door_open(struct door_place *place, struct exchange *x, const struct fathom_visitor *v);

/* End what the clients left behind, without waiting any longer. */
void door_end_all(struct door_place *place);
