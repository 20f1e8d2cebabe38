/* What the files of a run share: run_create.c accepts, run_store.c stores, run.c finds,
 * run_shed.c lets go of what is large while it waits, run_start.c executes, run_recover.c goes on
 * with what others began, run_end.c brings it to its end. */
#pragma once
#include "core/run.h"

void run_set_text(char **field, const char *value);

/* Go to the next phase, which must be one that may follow. The stream has an event "phase" then;
 * the first phase is told of when the stream is there. */
void run_move(struct run *run, enum phase next);
/* ... which it has already, of the server before us. */
void run_move_untold(struct run *run, enum phase next);
void run_tell_phase(struct run *run);

/* run.c */
struct run *run_new(struct service *s);
int run_decide(struct run *run, struct problem *problem);
/* How much of its output is kept. */
uint64_t run_log_cap(const struct run *run);
/* Its directory and stream; `is_new` until it is stored. */
int run_open_files(struct run *run, bool is_new);
void run_list(struct run *run);
/* Keep what is to be executed in the row, and which keeper is asked to, if one is. */
void run_fill_request(struct run *run, bool is_started);
/* When nobody else waits and there is room, it may begin; else it is in the queue. */
bool run_take_slot(struct run *run);
/* Are the files of its session being restored or made good? Then it waits for these, in its place
 * in the queue, but in nobody's way. */
bool run_awaits_files(const struct run *run);
void run_park(struct run *run);
/* The same for one that had its turn, which is another's then. */
void run_give_way(struct run *run);
void run_enqueue(struct run *run);
/* That it begins is stored: execute it now. */
void run_begin(struct run *run);

/* A run on its way: run_create.c accepts it, run_store.c has it stored and answers. */
struct creation {
	struct service *service;
	struct run *run; /* not yet in the service's list */
	struct claim *claim;
	char *key;
	char fingerprint[65];
	bool begins;       /* once it is stored */
	bool waits;        /* see struct run_wish */
	uv_timer_t *timer; /* while it is held back */
	run_cb *done;
	run_replayed_cb *replayed;
	void *ctx;
};

/* run_store.c: it was accepted. Have it stored, now or later, and answer when it is safe. */
void run_store_new(struct creation *c);
void creation_free(struct creation *c);
/* Its row was held back; store it now, so that its end can be. */
void run_store_held(struct run *run);
/* ... or store it together with its end, which the row has. */
void run_store_whole(struct run *run);
/* ... or refuse it: the service ends. */
void run_forget_held(struct run *run);
/* Count it with what stores it, unless that was done. */
void run_count(struct store_batch *b, const struct run *run);
/* Store the row as it is, without waiting for that. */
void run_store(struct run *run);

/* run_shed.c: the store has it as it is. If it waits, let go of what is large of its request. */
void run_shed(struct run *run);
/* ... and have that again; at once, if nothing was let go of. A run that can not have it ends. */
typedef void run_fetched_cb(struct run *run);
void run_fetch(struct run *run, run_fetched_cb *done);

/* run_recover.c: from what row.request says, its request, and the name of the keeper that was
 * asked, which the caller frees; `ret_keeper` may be NULL. */
int run_read_request(
	const struct run *run, struct request *ret, char **ret_keeper, struct problem *problem);
/* The same with all that follows of it: its policy and files. */
int run_parse_stored(struct run *run, char **ret_keeper);

/* run_start.c: does it begin with files of its own, of its request or of a repository? */
bool run_takes_files(const struct run *run);
/* Is what it asks for something that a box can be told? */
int run_check_spec(struct run *run, struct problem *problem);
/* What the runtime tells of one that it executes. */
extern const struct job_events run_job_events;

/* run_report.c: the log and the audit hear how it ended. */
void run_report_end(const struct run *run);
/* A line of the audit log about it, with the context of its request; takes `extra`, an object or
 * NULL. */
void run_audit(const struct run *run, const char *event, json_t *extra);

/* run_end.c */
void run_tell_waiters(struct run *run);
/* The store has its end, or can not take it. */
void run_on_end_stored(void *ctx, int r);
void run_on_drained(void *ctx);
void run_on_stream_failed(void *ctx, int r);
void run_on_capped(void *ctx);
/* The runtime said how it ended. */
void run_end(struct run *run, const struct result *result);
/* It ends without ever having been executed; `code` replaces the name of the reason. */
void run_end_without(struct run *run, enum reason reason, const char *code, const char *message);
/* A predecessor told its subscribers how it ended, and died before that was stored: so it did.
 * False when none has. */
bool run_end_as_told(struct run *run);
/* Whatever was missing for its end may be there now. */
void run_check_over(struct run *run);
/* It waits for somebody, and others may run meanwhile; or it has work again, which begins at once,
 * also when all places are taken. */
void run_rest(struct run *run);
void run_wake(struct run *run);
/* It could not even be stored: kill and forget. */
void run_abandon(struct run *run);
/* Its end is stored, if r is 0, and it may go. */
void run_end_stored(struct run *run, int r);
void run_stop_linger(struct run *run);
void run_attach_output(struct run *run);
