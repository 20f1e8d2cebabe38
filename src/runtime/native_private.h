/* What the files of the native runtime share: native_link.c keeps the connection and sends,
 * native_hear.c understands what the keeper says, native.c is the interface. */
#pragma once
#include <uv.h>

#include "ipc/cur.h"
#include "runtime/runtime.h"

struct frame;

#define NATIVE_RETRY_MS 50 /* before it is connected again; then twice that, and so on */

enum native_state {
	STATE_WAITING,
	STATE_GREETING,
	STATE_LISTING,
	STATE_UP,
	STATE_SILENT, /* connected, but without an answer for too long */
	STATE_CLOSED,
};

struct job {
	struct job *next;
	struct runtime_host *host;
	char id[RUN_ID_SIZE + 1];
	const struct job_events *events;
	void *ctx;
	bool is_over; /* ended, refused or lost: nothing more is told */
	bool is_lost;
	bool needs_attach; /* the keeper has it, and tells somebody else or nobody */
	bool is_attaching;
	bool has_started;
	bool is_canceled;
	bool stdin_is_closed;
	uint32_t last_pause; /* FREEZE or THAW, what was said last; 0: neither was */
};

/* A workspace that is being made. */
struct wish {
	struct wish *next;
	char id[WORKSPACE_ID_SIZE + 1];
	workspace_cb *done;
	void *ctx;
};

struct unsent {
	struct unsent *next;
	uint32_t type;
	struct put payload;
};

struct runtime_host {
	uv_loop_t *loop;
	struct runtime_listener listener;
	char *root;
	struct warm warm;
	enum native_state state;
	int fd;
	uv_poll_t *poll; /* exists while there is a connection */
	uv_timer_t retry;
	uint64_t retry_ms;
	uint64_t facets;
	char instance[KEEPER_ID_SIZE + 1];
	uint64_t broken_ns; /* since when there is no connection; 0: there is one */
	uv_timer_t pulse;   /* of native_pulse.c */
	uint64_t pulsed_ns; /* when it was looked at last */
	uint64_t asked_ns;  /* when the question was asked that is not answered; 0: none is */
	uint64_t silent_ns; /* the same, once that is too long ago */
	uint64_t n_stalls;  /* that the keeper knows of; UINT64_MAX: it has not said */
	struct job *jobs;
	unsigned n_attaching;
	struct wish *wishes;
	struct unsent *unsent;
	struct unsent **unsent_end;
	size_t n_unsent;
	char (*runs)[RUN_ID_SIZE + 1]; /* what it held when we came */
	size_t n_runs;
	uint8_t *buffer;
};

/* --- native_link.c --- */

void native_connect(struct runtime_host *h);
void native_disconnect(struct runtime_host *h);

/* Send, or keep it for when the keeper reads again; takes the payload. -EPIPE without a
 * connection, -EAGAIN when too much waits already. */
int native_say(struct runtime_host *h, uint32_t type, struct put *payload);
int native_say_id(struct runtime_host *h, uint32_t type, const char *id);
int native_say_nothing(struct runtime_host *h, uint32_t type);

/* Answer whoever waits for a workspace that it will not come. */
void native_give_up_wishes(struct runtime_host *h, const char *why);

/* --- native_pulse.c --- */

/* There is a connection, and it was said HELLO. */
void native_pulse_start(struct runtime_host *h);
void native_pulse_stop(struct runtime_host *h);

/* It answered: how often its loop stood still, how long last, and at what. */
void native_pulse_heard(struct runtime_host *h, uint64_t n_stalls, uint64_t ms, const char *step);

/* --- native_hear.c --- */

/* Act on one message. A negative errno drops the connection. */
int native_understand(struct runtime_host *h, struct frame *f);

struct job *native_find_job(struct runtime_host *h, const char *id);

/* Have the keeper tell us of a job that it holds, now or when it is its turn. */
void native_attach(struct job *j);
void native_end_attaching(struct job *j);

/* Whoever had all jobs is gone. */
void native_tell_lost(struct runtime_host *h);

/* Answer and free a wish; NULL is allowed. */
void native_grant(struct wish *w, int code, const char *text);
