/* What the files of the bridge share: bridge.c is the loop and the client's side of it,
 * bridge_work.c the calls to the server, bridge_session.c the session that there is, bridge_job.c
 * what is asked for. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "bridge/bridge.h"
#include "bridge/call.h"
#include "bridge/line.h"
#include "bridge/message.h"
#include "bridge/outbox.h"

#define MS_NS  UINT64_C(1000000)
#define N_IDLE 8u

enum phase {
	PHASE_NEW,     /* no session */
	PHASE_OPENING, /* initialize is under way */
	PHASE_OPEN,
};

enum work_kind {
	WORK_POST,
	WORK_RESUME, /* what is left of a stream that ended early */
	WORK_LISTEN, /* what the server says by itself */
	WORK_END,    /* of the session */
};

/* What the client said, or what we say for it. */
struct job {
	TAILQ_ENTRY(job) link;
	char *text;
	size_t size;
	struct message m;
	bool is_ours;  /* the client does not expect an answer */
	bool is_again; /* the second try, with a new session */
	bool is_tried; /* a session was begun for it; if there is none, it fails */
};

struct work {
	TAILQ_ENTRY(work) link;
	struct bridge *bridge;
	enum work_kind kind;
	struct call *call; /* NULL while it waits until `due_ns` */
	struct job *job;   /* NULL when it is not about one */
	bool is_answered;
	bool is_canceled;
	unsigned session; /* the one that it is part of, of those there were */
	uint64_t due_ns;
	uint64_t retry_ms;
	unsigned n_tries;
	char last_id[SSE_ID_MAX + 1];
};

struct idle {
	int fd;
	uint64_t since_ns;
};

struct bridge {
	const struct bridge_options *options;
	struct line_reader in;
	struct outbox out;
	struct bridge_place place;
	TAILQ_HEAD(, job) jobs;
	TAILQ_HEAD(, work) works;
	size_t n_works;
	size_t n_alone; /* works that others wait for */
	struct idle idle[N_IDLE];
	size_t n_idle;
	enum phase phase;
	char *opening; /* the client's initialize */
	size_t opening_size;
	bool was_acknowledged; /* the client said that it is initialized */
	char session[ANSWER_TEXT_MAX];
	unsigned n_sessions; /* that began or were lost; its streams are not the next one's */
	char *version;
	bool can_listen; /* the server has a stream of its own */
	bool is_listening;
	bool is_eof;
	bool is_ending; /* the session is being ended; nothing else counts */
	bool is_over;
	int fault; /* of the client's side */
};

/* bridge_job.c */

/* With a copy of the text; the message is yet to be parsed. */
struct job *job_new(const char *text, size_t size);
void job_free(struct job *j);
/* The client hears an error. */
void job_say_error(struct bridge *b, const json_t *id, int code, const char *text);
/* The client of this job hears what went wrong, if it expects to hear something. */
void job_fail(struct bridge *b, const struct job *j, const char *text);

/* bridge_session.c */

/* Before all else that waits: the client's initialize once more, said by us. */
void bridge_session_begin(struct bridge *b);
/* Keep the client's initialize for that. */
void bridge_session_keep(struct bridge *b, const struct job *j);
/* The answer to this work began one. */
void bridge_session_opened(struct work *w);
/* The server does not know the one of this work any more; there may be another one already. */
void bridge_session_lost(const struct work *w);
/* The version that the answer to an initialize names, if it is one. */
void bridge_session_set_version(struct bridge *b, const char *text, size_t size);
/* Hear what the server says by itself, once it may. */
void bridge_session_listen(struct bridge *b);

/* bridge_work.c */

/* Takes the job, which may be NULL. */
struct work *work_new(struct bridge *b, enum work_kind kind, struct job *j);
void work_free(struct work *w);
/* Begin it, or go on with it; it may be gone then. */
void work_step(struct work *w);
