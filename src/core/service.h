/* The service: everything the server knows and does, without a word of HTTP. It owns the
 * live runs and sessions, the store, the runtime, the queue and the counters, on one loop.
 * Doors translate: they create, look at and end what is here.
 *
 * Below the data directory:
 *	meta/sandbox_store.db            the store
 *	meta/fresh/<run>/                of runs that are not over, see run_dir.h
 *	meta/git/<run>                   repositories of runs that are not over, see repository.h
 *	audit/                           the audit log
 *	tmp/                             bodies of requests on their way
 *	<user>/runs/<run>/               stdout stderr events index capture artifacts/
 *	<user>/snapshots/<session>/      workspaces as they were
 */
#pragma once
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/queue.h"
#include "core/run_dir.h"
#include "core/settings.h"
#include "core/stall.h"
#include "runtime/runtime.h"

struct audit;
struct err;
struct metrics;
struct naming;
struct problem;
struct repository;
struct run;
struct session;
struct store;

struct service {
	uv_loop_t *loop;
	const struct settings *settings; /* borrowed */
	char policy_hash[65];
	char *data_dir;
	int data_fd;
	struct store *store;
	struct warm_state warmth; /* as it was last heard of */
	struct metrics *metrics;
	struct audit *audit;
	const struct runtime *runtime;
	struct runtime_host *host;
	struct stall server_stall;
	struct stall keeper_stall;
	bool is_up;          /* the runtime can take jobs */
	bool is_recovered;   /* what the store held from before is known again */
	bool is_dispatching; /* turns are being given */
	bool is_draining;
	atomic_bool stops_clones; /* read by their threads; set when nothing can begin any more */
	bool is_closing;          /* nothing new is begun, not even what a run still lacks */
	struct queue queue;
	struct run_dir_spares spares;
	struct journal *journal; /* NULL: whoever waits, waits for the store */
	struct run *runs;        /* those that are not over and stored yet */
	size_t n_runs;
	struct run *reserving; /* those that have reserved processor time */
	struct session *sessions;
	size_t n_sessions;
	struct session_past *past;       /* of sessions that expired lately; NULL: none did */
	struct naming *namings;          /* sessions that are being made for their names */
	struct repository *repositories; /* that are being cloned */
	struct claim *claims;            /* idempotency keys that are being looked at */
	uv_timer_t tick; /* once a second: time limits of the queue and of sessions */
	uint64_t next_sweep_ns;
	struct turn *turns;        /* the one under way, and those that wait for it */
	char *root;                /* where the keeper listens */
	uint64_t next_recovery_ns; /* when the store is asked again; 0: it has answered */
	unsigned n_pending;        /* store calls under way which someone of ours waits for */
	void (*drained)(void *ctx);
	void *drained_ctx;
	uint64_t drain_until_ns;
};

struct service_options {
	uv_loop_t *loop;
	const struct settings *settings;
	const char *root;     /* the state directory, where the keeper listens */
	const char *data_dir; /* ours, made if needed */
	/* For tests: instead of runtime_native and of the store that the settings name. */
	const struct runtime *runtime;
	const char *store;
};

int service_open(const struct service_options *options, struct service **ret, struct err *err);

/* Are runs started at all? Else they wait, or are refused. */
bool service_starts_runs(const struct service *s);

/* A problem when the keeper has not answered for so long that nothing new is to wait for it. */
int service_check_keeper(const struct service *s, struct problem *problem);

/* Start what waits, as far as there is room. */
void service_dispatch(struct service *s);

/* Take nothing new. `done` when no run is left, or after the time that the settings give; what
 * still runs then goes on in the keeper, for the next server. */
void service_drain(struct service *s, void (*done)(void *ctx), void *ctx);

/* Is there room on the disk to begin something new? What is under way, and the store, need what
 * is left. 0, or -1 with a problem. */
int service_check_space(const struct service *s, struct problem *problem);

/* Let go of everything, having waited for threads that work for it; nobody may wait for an
 * answer any more. The loop must run once more until its handles are closed. */
void service_close(struct service *s);

/* Who counts what it removes has to wait for its turn: two at once would count the same twice.
 * `begin` is called at once or later, also when the service ends, and is followed by
 * service_end_turn(). */
struct turn {
	struct turn *next;
	void (*begin)(struct turn *turn);
};
void service_take_turn(struct service *s, struct turn *turn);
void service_end_turn(struct service *s, struct turn *turn);

/* Remove what is past its time: artifacts and output, rows, idempotency keys, audit files.
 * The counts come as one JSON object, which is taken. Sweeps happen one after the other. */
typedef void service_sweep_cb(void *ctx, int r, json_t *counts);
void service_sweep(struct service *s, service_sweep_cb *done, void *ctx);

/* A path below the data directory, for messages and libraries; the caller frees it. */
char *service_path(const struct service *s, const char *relative);
