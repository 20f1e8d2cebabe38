/* Runs: one execution of a command, from the moment it is accepted until how it ended is
 * stored. A live run is an object here; what is over is a row of the store and a directory.
 *
 *   create: check -> policy -> idempotency -> quotas and queue -> stored and queued
 *   start:  spec to the runtime, files in, output to the stream
 *   end:    output drained, artifacts unpacked, "end" frame, stored, result acknowledged
 *
 * A run is accepted when it is stored, and over when its end is. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/phase.h"
#include "core/policy.h"
#include "core/queue.h"
#include "core/request.h"
#include "core/upload.h"
#include "ipc/inventory.h"
#include "store/record.h"

struct collector;
struct creation;
struct identity;
struct job;
struct kernel;
struct lister;
struct problem;
struct run;
struct service;
struct session;
struct stream;

/* Somebody waits for the end of a run. */
struct run_waiter {
	struct run_waiter *next;
	void (*over)(struct run_waiter *w, struct run *run); /* it was taken off the list */
};

/* What may be passed by one who types, but for the time to do so. */
enum input_limit {
	INPUT_LIMIT_FRAME,
	INPUT_LIMIT_RATE,
	INPUT_LIMIT_TOTAL,
	INPUT_LIMIT_COUNT,
};

/* Limits of what people may type into a run, and what they have used up. */
struct run_input {
	int fd;          /* -1: none yet, or closed */
	bool has_limits; /* those that follow are set */
	bool is_typed;   /* the run is interactive */
	uint64_t max_bytes, max_frame_bytes, bytes_per_sec, idle_sec;
	uint64_t n_bytes;
	unsigned n_violations; /* that the stream told of, or will: */
	unsigned n_owed[INPUT_LIMIT_COUNT];
	double tokens; /* bytes that may come now */
	uint64_t last_ns;
	char *pending; /* accepted, not yet taken by the guest */
	size_t n_pending;
	uv_poll_t *poll; /* while something is pending */
	bool closes;     /* once nothing is; or it was closed */
};

/* What a run has reserved of its user's quota of artifacts, see quota.h. */
enum reserve_state {
	RESERVE_NONE,
	RESERVE_WAITS, /* for other runs of the user to say what they keep */
	RESERVE_BOUND, /* it may keep less */
	RESERVE_FINAL, /* it keeps exactly this */
};

struct quota_room;

struct run_reserve {
	enum reserve_state state;
	uint64_t bytes;
	struct quota_room *room; /* of one that waits */
};

/* What a run may yet use of its user's processor time of the day, see quota.h. */
struct run_cpu_reserve {
	struct run *next; /* in the service's list; only if it is `held` */
	bool held;
	uint64_t us;
};

struct run {
	struct run *next;
	struct service *service;
	struct run_reserve reserve;
	struct run_cpu_reserve cpu_reserve;
	struct run_row row;
	enum phase phase;
	struct session *session; /* NULL: one-shot */
	struct request request;
	struct policy policy;
	struct upload_inline *files;
	size_t n_files;
	struct queue_entry waiting;
	bool holds_slot; /* counted as active in the queue */
	bool is_shed;    /* the store has its request; see run_shed.c */
	bool is_fed;     /* its files were sent, as far as the box took them */

	int dir_fd;
	bool is_fresh; /* its directory has not got its place yet */
	int place;     /* in the journal; negative: none */
	bool is_noted; /* it was answered for, and the journal has that it began, not the store */
	bool counts;   /* its user's usage does not have it yet */
	struct stream *stream;
	struct job *job;
	int out_fd, err_fd; /* not yet given to the stream */
	struct run_input input;
	struct collector *capture;
	struct kernel *kernel;   /* who talks to it and has its output; NULL: an ordinary run */
	uint64_t lives_ms;       /* as long as this, whatever the policy says of one execution */
	int64_t known_cpu_us;    /* of an interpreter, while it goes on ... */
	int64_t counted_cpu_us;  /* ... and of that its user's day has this ... */
	int64_t counting_cpu_us; /* ... or this, if what is under way gets stored; 0: nothing is */
	bool was_late;           /* it was ended by us, since an execution in it took too long */
	bool lists;              /* names its files when it is over */
	bool digests;            /* ... with the SHA-256 of each */
	struct lister *lister;
	struct inventory listing; /* of a run that `lists`: for whoever waits for its end */
	bool has_listing;         /* false also when its box died before it could say */
	uv_timer_t *linger; /* gives up on output that does not end; or tries again to store */

	uint64_t accepted_ns; /* CLOCK_MONOTONIC */
	uint64_t asked_ns;    /* likewise, when the runtime was asked to start it; 0: by another */
	bool is_late;         /* ... and that was long ago when somebody looked */
	uint64_t started_ns;  /* likewise; 0: not yet */
	bool has_result;
	struct result result;
	json_t *brief;    /* what an admin is shown of it; NULL: no approval is needed */
	json_t *usage;    /* what row.usage says, once it is over; nobody changes it */
	bool is_attached; /* the stream has its output, or knows that there is none */
	bool is_drained;
	bool is_captured;
	bool is_listed;
	bool is_settling;      /* its end is being stored */
	bool is_stored;        /* ... and who asks the store from now on finds it there */
	bool is_abandoned;     /* it goes when nobody is at work for it any more */
	bool cancels;          /* somebody asked for its end */
	bool is_over_output;   /* ... which is because it printed too much */
	bool is_adopted;       /* a predecessor of ours started it */
	struct creation *held; /* it is not stored yet, and may be with its end */
	unsigned n_work;       /* threads and calls of the store at work for it */
	unsigned n_tries;      /* to store its end, that failed */
	struct run_waiter *waiters;
};

typedef void run_cb(void *ctx, struct run *run, struct problem *problem);

#define RUN_HOLD_MS 250u

struct run_wish {
	const struct request *request; /* copied */
	const struct identity *who;
	const char *idempotency_key; /* may be NULL */
	const char *source;
	const char *trace_id;  /* may be NULL */
	struct kernel *kernel; /* may be NULL */
	uint64_t lives_ms;     /* 0: as long as the policy says */
	bool lists;            /* whoever waits for its end finds what is in its workspace then */
	bool digests;          /* ... with the SHA-256 of files */
	bool waits;            /* an answer may come RUN_HOLD_MS late if it has the end then */
};

/* Accept a run. With a key that was used before, `replayed` says so, with the row as it is
 * now: the run itself may be over. Exactly one of both is called. */
typedef void run_replayed_cb(void *ctx, const struct run_row *row);
void run_create(struct service *s, const struct run_wish *wish, run_cb *done,
	run_replayed_cb *replayed, void *ctx);

/* The live run of this id, if it belongs to `who` (NULL: anybody's). */
struct run *run_find(struct service *s, const char *id, const struct identity *who);

/* Its row, live or stored. `row` is NULL with a problem. */
typedef void run_row_cb(void *ctx, const struct run_row *row, struct problem *problem);
void run_get(
	struct service *s, const char *id, const struct identity *who, run_row_cb *done, void *ctx);

/* What one that is over printed. -ENOENT when that is gone. */
int run_open_output(struct service *s, const struct run_row *row, struct stream **ret);

/* Is it among those that a list of the living shows? Not before it is to be stored, since we
 * could die and it had never been, nor when the store has been told of its end. */
bool run_is_shown(const struct run *run);

/* Have those stored that only the journal has: for who asks the store for all there are. */
void run_store_noted(struct service *s);

/* End it. False when it is over, or ending already. */
bool run_cancel(struct run *run);

/* Hear of its end. */
void run_wait(struct run *run, struct run_waiter *w);
void run_unwait(struct run *run, struct run_waiter *w);

bool run_awaits_approval(const struct run *run);
/* Let one go that waits for an approval, or refuse it, for a reason (NULL: none is given) of at
 * most RUN_DENIAL_MAX bytes that the user is told. -ENOENT: it does not wait. */
#define RUN_DENIAL_MAX 200u
int run_approve(struct run *run, bool approved, const char *by, const char *reason);

/* Execute it now. */
void run_launch(struct run *run);

/* Once a second: one that the runtime does not start in time ends. */
void run_start_tick(struct run *run, uint64_t now_ns);

/* Runs of this session that waited for its files have their turns. */
void run_files_are_back(const struct session *session);

/* The queue gave it its turn: that is stored first, so that nobody executes it again. */
void run_take_turn(struct run *run);

/* It waited for too long. */
void run_expire(struct run *run);

/* After a restart: a run that the store says is not over. */
void run_recover(struct service *s, const struct run_row *row);
/* ... and then, when the runtime is up, which of them it knows. */
void run_match(struct service *s, const char (*ids)[RUN_ID_SIZE + 1], size_t n);

/* For service.c: release a run whose end is stored, or whose server ends. */
void run_free(struct run *run);

/* Input of a person, run_input.c. `reason` of a violation goes to the stream as the protocol
 * says; what is within the limits is taken all the same. What comes before the run has begun
 * waits in memory until then. */
/* Does it take any? Also of a predecessor's run that the keeper has not told of yet. */
bool run_input_is_typed(struct run *run);
void run_input_write(struct run *run, const void *data, size_t size);
void run_input_close(struct run *run);
/* Its stdin is there ... */
void run_input_open(struct run *run, int fd);
/* ... it has begun, and the stream has said so ... */
void run_input_begin(struct run *run);
/* ... or its box went before that, and it will get another. */
void run_input_retract(struct run *run);
/* ... or all that the request has for it, after which it is closed. */
void run_input_give(struct run *run, int fd);
void run_input_tick(struct run *run, uint64_t now_ns);
void run_input_fini(struct run *run);

/* run_json.c: as answers show it. */
json_t *run_json(const struct service *s, const struct run_row *row);
/* ... and in the admin's lists. */
json_t *run_json_admin(const struct run_row *row);
json_t *run_json_limits(const struct policy *p);
/* The names of the facets in a mask: ["timeout", "memory"]. */
json_t *run_json_facets(uint64_t mask);
/* resource_usage of a run that is over, its keys in their order. */
json_t *run_usage(const struct run *run, uint64_t artifact_bytes, uint64_t n_skipped);
