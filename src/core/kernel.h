/* State that persists: one long-lived Python interpreter per session, which executes pieces of
 * code one after the other and keeps their variables. It is a run of the session like any other,
 * in a box of its own, under the same policy, quotas and audit, and ends with the session; its
 * `source` is KERNEL_SOURCE, and it has a label that says so. It is started when it is first
 * needed, and again when it died.
 *
 *   none --execute--> creating --stored--> starting --ready--> idle <--> busy
 *     ^------------------ ending: it exited, was killed, or restarted -----'
 *
 * How long it lives is the session's affair, and the policy's time limit is that of each
 * execution: at the limit, or when nobody wants it any more, it is interrupted (variables are
 * kept), and when that does not help within KERNEL_GRACE_MS it is ended (they are lost). Whoever
 * executes next is told that the interpreter is fresh, and why. One that is not ready within the
 * policy's time for starting is ended as well. An idle one holds memory, but no place among the
 * active runs. A server that is restarted ends those of its predecessor: what was under way is not
 * known.
 *
 * Everything that comes out of the box is the user's word: limits and nonsense end the
 * interpreter, and can hurt nobody else (kernel_wire.h). */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid.h"
#include "core/excerpt.h"
#include "core/kernel_wire.h"
#include "store/record.h"

struct problem;
struct service;
struct session;

#define KERNEL_SOURCE      "kernel" /* run_recover.c knows them by it after a restart */
#define KERNEL_CODE_MAX    (1u << 20)
#define KERNEL_WAITING_MAX 16u   /* executions of one session, the one under way included */
#define KERNELS_PER_USER   8u    /* interpreters that live at once */
#define KERNEL_GRACE_MS    2000u /* between an interrupt and the end */

/* Why the interpreter is a new one. */
enum kernel_fresh {
	KERNEL_KEPT, /* it is not: variables of before are there */
	KERNEL_FIRST_USE,
	KERNEL_RESTARTED,
	KERNEL_AFTER_DEATH,         /* `fresh_reason` has the reason code of its predecessor */
	KERNEL_AFTER_SERVER_RESTART /* ours */
};

/* "", "first_use", "restarted", "died", "server_restarted" */
const char *kernel_fresh_name(enum kernel_fresh f);

/* What the box of an interpreter may use. It is made with what the execution asks for that is the
 * first there, as far as the policy allows it. 0: what the session has. */
struct kernel_limits {
	uint64_t cpu_milli;
	uint64_t memory_mb;
};

struct kernel_wish {
	const char *code; /* UTF-8, copied */
	size_t size;
	uint64_t timeout_ms; /* 0: what the session has; never more than the policy allows */
	const json_t *env;   /* variables of the process, for this execution; may be NULL */
	struct kernel_limits limits;
	const char *trace_id;  /* may be NULL */
	const json_t *context; /* as in a request; may be NULL */
};

/* What became of it. Texts and bytes are valid during the call; who wants to keep an image or
 * the listing takes it out of `reply`. */
struct kernel_result {
	enum kernel_outcome outcome;
	bool was_late;           /* its time was over: it was interrupted, or died of it */
	const char *reason_code; /* of the run, if it died; else NULL */
	const char *message;     /* likewise, a sentence; may be NULL */
	int64_t exit_code;       /* likewise, if it exited by itself; else STORE_NULL */
	struct kernel_reply reply;
	struct excerpt out, err; /* also what threads printed since the last execution */
	uint64_t wall_ns;        /* since it was begun; 0 when it was not */
	uint32_t execution_count;
	enum kernel_fresh fresh;
	const char *fresh_reason;
	bool has_other_limits;       /* than it asked for: the box was made for another */
	struct kernel_limits limits; /* which are these */
	char run_id[UUID_SIZE + 1];
};

/* Called once, maybe before kernel_execute() returned: `result`, or NULL with a problem when it
 * could not even be tried. */
typedef void kernel_cb(void *ctx, struct kernel_result *result, struct problem *problem);
void kernel_execute(
	struct session *session, const struct kernel_wish *wish, kernel_cb *done, void *ctx);

/* Interrupt what is executed now, as ^C would. False when nothing is. */
bool kernel_interrupt(struct session *session);

/* How far it is with what was asked for with this `ctx`. */
enum kernel_stage {
	KERNEL_AWAITS_TURN,     /* others of this session come first */
	KERNEL_AWAITS_APPROVAL, /* an admin's, for its interpreter */
	KERNEL_STARTS,
	KERNEL_RUNS,
};
enum kernel_stage kernel_stage(const struct session *session, const void *ctx);

/* What there is of an interpreter now. */
struct kernel_now {
	const char *state;  /* "none", "starting", "awaiting_approval", "idle", "busy", "ending" */
	const char *run_id; /* of its run; NULL: there is none. Valid until something is done */
	size_t n_waiting;   /* executions, the one under way included */
	uint32_t execution_count;
};
struct kernel_now kernel_look(const struct session *session);

/* How an execution ended, by the same codes as of a run. */
const char *kernel_reason(const struct kernel_result *r);

/* True for an interpreter that has nothing to do, and so is no reason for its session to stay. */
bool kernel_is_idle(const struct session *session);

/* Whoever asked with this `ctx` does not want it any more: interrupted, and ended if that does not
 * help, or not begun. An interpreter that awaits an approval, and that nobody else wants, ends. The
 * session may be freed. */
void kernel_cancel(struct session *session, void *ctx);

/* End the interpreter; the next execution has a fresh one. False when there is none. */
bool kernel_restart(struct session *session);

/* --- for run_start.c, session.c and service.c --- */

struct kernel;

/* Our ends of its pipes: code goes into `say`, and what became of it comes out of `reply`. */
struct kernel_fds {
	int say, reply, out, err;
};

/* Its box has used this much processor time, and executes no more, or still does. */
void kernel_on_used(struct kernel *k, uint64_t cpu_us, bool is_frozen);

/* The run was started. All descriptors are taken. */
void kernel_attach(struct kernel *k, const struct kernel_fds *fds);

/* The server ends, or the session is gone: whoever waits is told so. */
void kernel_forget(struct session *session);

/* The server is about to end: idle ones end now, others when they are. */
void kernel_drain(struct service *s);
