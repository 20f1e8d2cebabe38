/* What the files of a kernel share: kernel.c is the life of an interpreter, kernel_ask.c has who
 * wants something of it, kernel_execution.c what it is at, and kernel_talk.c the pipes to it. */
#pragma once
#include <uv.h>

#include "core/kernel.h"
#include "core/run.h"

enum kernel_state {
	STATE_NONE,
	STATE_CREATING, /* its run is being accepted */
	STATE_STARTING, /* ... executed */
	STATE_IDLE,
	STATE_CHECKING, /* may its user still use processor time? */
	STATE_BUSY,
	STATE_ENDING, /* we asked for it */
};

struct execution {
	struct execution *next;
	char *code;
	size_t size;
	char *env;
	size_t env_size;
	uint64_t timeout_ms;
	struct kernel_limits limits;
	char trace_id[33];
	json_t *context; /* for the audit log, or NULL */
	kernel_cb *done;
	void *ctx;
};

/* A descriptor of the run that is read, or, `say_tap`, written. */
struct tap {
	uv_poll_t poll;
	struct kernel *kernel;
	int fd;
	struct excerpt *into; /* NULL: not what it prints */
};

struct kernel {
	struct session *session;
	struct service *service;
	enum kernel_state state;
	struct run_waiter waiter;
	struct run *run;
	struct kernel_limits asked; /* for its box; the policy may have given less */
	struct execution *first;    /* under way if `is_executing`; others wait */
	size_t n;
	bool is_executing;
	bool is_forgotten; /* but its run is still being accepted */
	struct tap *say_tap, *reply_tap, *out_tap, *err_tap;
	struct kernel_reader reader;
	struct excerpt out, err;
	char *unsent; /* what the interpreter did not take yet */
	size_t n_unsent, at_unsent;
	size_t n_code;       /* of it, up to the end of the code of the execution under way */
	bool has_said_press; /* that the execution under way is interrupted, or it is unsent */
	bool signal_waits;   /* until all of that is sent */
	uv_timer_t *timer;   /* of the execution, or until it is ready */
	uint64_t begun_ns;   /* the execution under way */
	uint32_t number;
	enum kernel_fresh fresh;
	char fresh_reason[64];
	bool was_ready;
	bool is_interrupted; /* the execution under way, by us */
	bool is_late;        /* ... since its time is over */
	bool is_canceled;    /* ... since nobody wants it any more */
	bool is_unwanted;    /* its run, before an admin approved of it */
	bool restarts;
	bool talked_nonsense;
	bool drains;
	bool rests; /* its box was asked to be frozen */
};

/* kernel_talk.c */
void kernel_send(struct kernel *k, const struct execution *e);
/* Say that the execution under way is interrupted, and then send the signal. */
void kernel_send_press(struct kernel *k);
/* Take what is in the pipes now. */
void kernel_catch_up(struct kernel *k);
void kernel_hang_up(struct kernel *k);

/* kernel.c */
void kernel_on_ready(struct kernel *k);
void kernel_on_nonsense(struct kernel *k);
/* Whatever can be done now, is. */
void kernel_advance(struct kernel *k);
void kernel_end_run(struct kernel *k);
/* ... of one that an admin has yet to approve, if nobody wants it any more. The caller holds the
 * session. */
void kernel_drop_unwanted(struct kernel *k);

/* kernel_execution.c */
void kernel_on_attached(struct kernel *k);
void kernel_on_done(struct kernel *k);
/* The first in the list is sent, or refused; or told of: `result` has how it ended, the rest is
 * known there. */
void kernel_begin(struct kernel *k);
/* ... if its user may still use processor time. */
void kernel_check_quota(struct kernel *k);
void kernel_finish_execution(struct kernel *k, struct kernel_result *result);
/* Whoever asked hears of it, and it is freed; it is in the list no more. */
void kernel_tell(struct kernel *k, struct execution *e, struct kernel_result *result,
	struct problem *problem);
void kernel_refuse_all(struct kernel *k, struct problem *problem);
void kernel_refuse_all_with(struct kernel *k, const char *code, const char *text);
void kernel_stop_timer(struct kernel *k);
/* If it is idle: what goes on in its box is frozen, or its processor time looked at now and then,
 * and none of the day is reserved. */
void kernel_rest(struct kernel *k);
/* It can not answer any more. If nobody waits for an answer it must end soon, or is ended. */
void kernel_on_mute(struct kernel *k);
/* As ^C, and the end if that does not help within KERNEL_GRACE_MS. */
void kernel_press(struct kernel *k);
void kernel_signal_interrupt(struct kernel *k);
