/* Runtimes: what can execute a run. Each is one const struct of data and calls; the array
 * of them in runtime.c is the whole system. The native one makes boxes through the keeper;
 * others are known by name and say why they are not available.
 *
 * A runtime works on the server's loop and never blocks it. A job is one piece of work for
 * it: a run of a guest, or files into and out of a workspace. After runtime_start() its
 * owner hears, in this order:
 *
 *	refused                                  it will not happen; the last call
 *	started  (descriptors of its channels)
 *	running
 *	ended    (how)                           until runtime_release() it can be asked for again
 *	lost                                     instead of any of these: whoever executes it is
 *	                                         gone, and with it what was executed
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/message.h"
#include "ipc/result.h"
#include "ipc/spec.h"
#include "ipc/warm.h"

struct err;
struct job;
struct runtime_host;
typedef struct uv_loop_s uv_loop_t;

/* Who does not answer for so long is said to be silent; and for so long, is taken for lost. */
#define RUNTIME_SILENT_NS UINT64_C(2000000000)
#define RUNTIME_LOST_NS   UINT64_C(30000000000)

struct job_events {
	/* Descriptors for enum channel, -1 for none; taken by who hears it. */
	void (*started)(void *ctx, int fds[CHANNEL_COUNT]);
	void (*running)(void *ctx, uint64_t started_ns);
	void (*ended)(void *ctx, const struct result *result);
	void (*refused)(void *ctx, enum reason reason, int code, const char *text);
	void (*lost)(void *ctx);
	/* After freeze() or ask_usage(): processor time until now, USAGE_UNKNOWN where nobody says,
	 * and whether it executes no more. NULL: the job never asks. */
	void (*used)(void *ctx, uint64_t cpu_us, bool is_frozen);
};

/* What the server is told of a runtime as a whole. */
struct runtime_listener {
	/* It can take jobs; `runs` and `workspaces` are the ids it holds from before, which are
	 * ours to adopt or to end. */
	void (*up)(void *ctx, const char (*runs)[RUN_ID_SIZE + 1], size_t n_runs,
		const char (*workspaces)[WORKSPACE_ID_SIZE + 1], size_t n_workspaces);
	/* It can not, until the next `up`; also when it is silent for too long. Jobs go on, unless
	 * they are told `lost`: that comes before the next `up`, or when nothing was heard for
	 * long. */
	void (*down)(void *ctx);
	/* It has not answered since then (CLOCK_MONOTONIC) for more than RUNTIME_SILENT_NS. */
	void (*silent)(void *ctx, uint64_t since_ns);
	/* It answers again, or had not for so long without our notice: what it was at. */
	void (*heard)(void *ctx, uint64_t ms, const char *step);
	/* What it has made ahead, now and then. */
	void (*warmth)(void *ctx, const struct warm_state *state);
	void *ctx;
};

struct runtime_options {
	const char *root; /* the state directory */
	struct warm warm; /* what to make ahead */
};

typedef void workspace_cb(void *ctx, int code, const char *text);

struct runtime {
	const char *name;
	const char *summary;
	/* NULL when it is available here, else why not: "docker is not supported yet". */
	const char *(*probe)(void);

	int (*open)(uv_loop_t *loop, const struct runtime_options *options,
		const struct runtime_listener *listener, struct runtime_host **ret,
		struct err *err);
	void (*close)(struct runtime_host *h);
	bool (*is_up)(const struct runtime_host *h);
	uint64_t (*facets)(const struct runtime_host *h);
	const char *(*instance)(const struct runtime_host *h); /* changes when it was restarted */

	/* -EAGAIN while it is down; else `events` will tell. */
	int (*start)(struct runtime_host *h, const struct spec *spec,
		const struct job_events *events, void *ctx, struct job **ret);
	/* Hear of a run from before as if it were just started. */
	int (*adopt)(struct runtime_host *h, const char *id, const struct job_events *events,
		void *ctx, struct job **ret);
	void (*cancel)(struct job *j);
	/* To the guest's process group; lost when the keeper is not there. */
	void (*signal)(struct job *j, int sig);
	/* Nothing of it executes until thaw(), signal() or cancel(), if that can be done here;
	 * `used` tells. When the keeper is not there, it is told the last of both later. */
	void (*freeze)(struct job *j);
	void (*thaw)(struct job *j);
	void (*ask_usage)(struct job *j);
	void (*close_stdin)(struct job *j);
	/* The result is safe, or nobody wants it: forget the job. What still runs is killed. */
	void (*release)(struct job *j);
	/* End and forget a run from before. */
	void (*discard)(struct runtime_host *h, const char *id);

	void (*make_workspace)(struct runtime_host *h, const char *id, uint64_t bytes,
		workspace_cb *done, void *ctx);
	void (*drop_workspace)(struct runtime_host *h, const char *id);
};

extern const struct runtime runtime_native;
extern const struct runtime runtime_docker;
extern const struct runtime runtime_firecracker;

/* Every runtime we know of; ends with NULL. */
extern const struct runtime *const runtimes[];

/* By name, or NULL. */
const struct runtime *runtime_find(const char *name);
