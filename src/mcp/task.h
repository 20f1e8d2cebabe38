/* A tool that is a run: it is asked for as any door does, waited for, told of while it goes, and
 * handed to the tool when it is over. Canceling the call ends the run; the end of the server does
 * not. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/uuid.h"
#include "core/run.h"

struct call;
struct lang;
struct session;

#define TASK_FIRST_WORD_MS 500u /* until progress is told for the first time */
#define TASK_WORD_MS       1000u

/* Of what an admin has to look at first. */
#define TASK_AWAITS_APPROVAL "waiting for an admin's approval"

struct task {
	struct call *call; /* NULL once it was answered */
	json_t *body;      /* of POST /runs */
	struct run *run;   /* while it is waited for */
	struct run_waiter waiter;
	uv_timer_t timer; /* while it is told of */
	bool has_timer;
	uint64_t begun_ms;
	bool lists;              /* what is in its workspace at its end */
	bool digests;            /* ... with the SHA-256 of files */
	const struct lang *lang; /* whose program is the first word of its command; or NULL */
	/* It is over: answer the call. */
	void (*over)(struct task *t, struct run *run);
};

/* A task of the call, not begun; takes `body`. */
struct task *task_new(struct call *c, json_t *body, void (*over)(struct task *t, struct run *run));

/* Run it in the session that `arguments` name, made if need be. */
void task_start_in_session(struct task *t, const json_t *arguments);
/* Run it as it is. */
void task_start(struct task *t);
