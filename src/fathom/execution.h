/* One execution of a connection: a run, asked for as any door does, and what there is to tell of
 * it, in the order of the protocol:
 *
 *	ack, status running, stdout and stderr ..., status (terminal), result
 *
 * or an error in the place of the rest. Nothing is queued: it reads the run's stream as its
 * client takes messages, so a client that takes none costs nothing.
 *
 * It belongs to its connection, and lives until its run is over or nobody waits for it. */
#pragma once
#include <stdbool.h>
#include <sys/queue.h>

#include "base/uuid.h"
#include "core/identity.h"
#include "core/run.h"
#include "fathom/decoder.h"
#include "fathom/envelope.h"
#include "fathom/fathom_message.h"

struct cursor;
struct execution;
struct service;
struct shared;
struct stream;

/* What all executions of a connection have in common. */
struct execution_host {
	struct service *service;
	struct identity who;
	char trace_id[33];
	/* There may be something to tell, or nothing will be any more: from within
	 * execution_start(), or from the loop. The last thing that is done with it: it may be
	 * freed. */
	void (*ready)(void *ctx, struct execution *e);
	void *ctx;
};

enum execution_step {
	STEP_ASKED, /* it is being decided whether there will be a run */
	STEP_REFUSED,
	STEP_ACCEPTED,
	STEP_FOLLOWED, /* its output is being told */
	STEP_FAILED,   /* the error is to be told */
	STEP_ENDED,    /* the terminal status is */
	STEP_COUNTED,  /* the result is */
	STEP_DONE,
	STEP_COUNT,
};

struct execution {
	LIST_ENTRY(execution) link;        /* its connection's */
	TAILQ_ENTRY(execution) ready_link; /* likewise, while is_ready */
	bool is_ready;

	const struct execution_host *host;
	char id[FATHOM_ID_MAX + 1];
	enum execution_step step;
	struct run *run; /* while it lives */
	struct run_waiter waiter;
	char run_id[UUID_SIZE + 1];
	struct stream *stream;
	struct cursor *cursor; /* NULL: it is not followed */
	struct decoder decoders[2];
	struct shared *held; /* output that came before it was said that it runs */
	bool is_canceled;    /* as soon as there is a run */
	bool is_running;     /* was told */
	struct envelope_limits limits;
	json_t *warnings; /* an array, or NULL */
	bool has_started;
	struct fault_end end;
	struct envelope_result result;
	char message[256]; /* of an error */
};

/* One that does not do anything yet; execution_free() it. */
struct execution *execution_new(const struct execution_host *host, const char *id);

/* Ask for the run of an "execute", in this image. */
void execution_start(struct execution *e, const struct fathom_message *m, const char *image);

/* End the run, now or as soon as there is one. */
void execution_cancel(struct execution *e);

/* The next message, with a reference for the caller; NULL when there is none now: `ready` will
 * tell, or when it is done. */
struct shared *execution_next(struct execution *e);
bool execution_is_done(const struct execution *e);

/* Nobody listens any more: `ready` only tells of the end. */
void execution_unfollow(struct execution *e);

/* There is no run, and none will be. */
bool execution_is_over(const struct execution *e);

/* Let go of it; its run goes on. Not while it is being decided (STEP_ASKED). NULL is allowed. */
void execution_free(struct execution *e);
