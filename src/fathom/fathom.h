/* The Fathom door: executions over one WebSocket, many at once, as docs/fathom.md has them. It
 * translates and decides nothing: each execution is a run like any other.
 *
 *	fathom_message.c   what a client says, checked
 *	wish.c             the run it asks for; language.c, whether its language is there
 *	execution.c        one execution: a run, and what is told of it
 *	door.c             one connection
 *	envelope.c         what we say; fault.c, which error; decoder.c, bytes as text
 *
 * What a connection leaves behind is ended after a while, also what one of a server that died
 * left. On the loop of the service, which must outlive it. */
#pragma once

struct exchange;
struct fathom;
struct identity;
struct ratelimit;
struct service;

/* The version of the protocol that is spoken, as the header says it. */
#define FATHOM_VERSION "1"

/* `per_user` is borrowed: each message counts as a request. */
struct fathom *fathom_open(struct service *service, struct ratelimit *per_user);

struct fathom_visitor {
	const struct identity *who;
	const char *trace_id;
	/* When the connection is gone. */
	void (*left)(void *ctx);
	void *ctx;
};

/* Accept the upgrade. */
void fathom_accept(struct fathom *f, struct exchange *x, const struct fathom_visitor *v);

/* When no connection is left: what they left behind is ended at once. `done` is called when
 * that is so, from within or later. */
void fathom_close(struct fathom *f, void (*done)(void *ctx), void *ctx);
