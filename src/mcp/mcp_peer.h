/* One client of MCP, whatever carries its messages: revision, capabilities, the calls under way
 * and what it wants to hear of. With a stateless revision it is a client for one request only. It
 * decides nothing about runs; it finds who answers a call, in one table of methods (method.c) and
 * in a catalog.
 *
 * A transport hands in messages with mcp_peer_hear() and gets those for the client by `send`. On
 * the loop of the service. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/identity.h"

struct call;
struct mcp_catalog;
struct mcp_host;
struct mcp_meta;
struct mcp_peer;
struct mcp_revision;
struct rpc_message;
struct run_row;
struct service;
struct session;
struct turns;

#define MCP_PEER_CALLS_MAX         64u   /* of one client under way; one more is refused */
#define MCP_PEER_SUBSCRIPTIONS_MAX 256u  /* of one client */
#define MCP_PEER_URI_MAX           1024u /* bytes */
#define MCP_PEER_BASE_MAX          256u

/* What all peers have in common. */
struct mcp_host {
	struct service *service;
	const struct mcp_catalog *catalog;
	const char *secret; /* of signed URLs, or NULL */
	/* The URL of a run's stream; the caller frees it. May be NULL. */
	char *(*stream_url)(void *ctx, const struct run_row *row);
	void *ctx;
	LIST_HEAD(, mcp_peer) peers;
	struct turns *turns; /* whose answers are large, see turns.h; NULL: nobody's */
	json_t *schemas; /* of the arguments of tools that were called, by their names; or NULL */
	void (*closed)(void *ctx); /* after mcp_host_close(): the last peer is gone */
	void *closed_ctx;
	bool is_closing;
};

enum mcp_peer_stage {
	MCP_PEER_NEW,    /* nothing but initialize and ping is answered */
	MCP_PEER_MET,    /* initialize was answered */
	MCP_PEER_ACTIVE, /* ... and that was acknowledged */
};

struct mcp_peer_ops {
	/* A message for the client; takes it. `origin` is what came with the call that it belongs
	 * to, or NULL when it belongs to none. `is_answer` says that it is that call's last word.
	 * False when it can not be delivered, ever. */
	bool (*send)(void *ctx, json_t *message, void *origin, bool is_answer);
	/* A call ends without an answer: it was canceled. Its origin expects one less. */
	void (*drop)(void *ctx, void *origin);
	/* The last call: the peer is no more. */
	void (*gone)(void *ctx);
};

struct subscription {
	LIST_ENTRY(subscription) link;
	char uri[];
};

struct mcp_peer {
	LIST_ENTRY(mcp_peer) link;
	struct mcp_host *host;
	const struct mcp_peer_ops *ops;
	void *ctx;
	struct identity who;
	char base[MCP_PEER_BASE_MAX]; /* how this client reaches us: "http://127.0.0.1:8080"; or ""
				       */
	bool is_local; /* it came by the server's local socket, see core/file_url.h */
	enum mcp_peer_stage stage;
	const struct mcp_revision *revision; /* NULL: it was not met yet */
	json_t *capabilities;                /* of the client; NULL: none yet */
	int log_level;                       /* -1: it wants no log messages; see call.h */
	LIST_HEAD(, call) calls;
	size_t n_calls;
	LIST_HEAD(, subscription) subscriptions;
	size_t n_subscriptions;
	bool hears_lists;                /* it wants to know when the list of resources changes */
	struct call *listener;           /* what it is told belongs to this call; NULL: to none */
	LIST_HEAD(, question) questions; /* that we asked the client */
	uint64_t next_question;
	bool is_closing;
};

/* `base` may be NULL. The caller ends it with mcp_peer_close(). */
struct mcp_peer *mcp_peer_new(struct mcp_host *host, const struct mcp_peer_ops *ops, void *ctx,
	const struct identity *who, const char *base);

/* The client is known from its first request on: what that said of itself. */
void mcp_peer_meet(struct mcp_peer *p, const struct mcp_meta *meta);

/* A message of the client. Of a request the answer comes by `send`, with `origin`, maybe from
 * within; the last thing that is done with the peer. `trace_id` may be NULL. */
void mcp_peer_hear(
	struct mcp_peer *p, const struct rpc_message *m, void *origin, const char *trace_id);

/* The client wants no answer any more: all of its calls are canceled. */
void mcp_peer_cancel(struct mcp_peer *p);

/* Nobody listens any more: nothing more is sent. Runs go on; `gone` comes when the last call is
 * over, maybe from within. */
void mcp_peer_close(struct mcp_peer *p);

/* Tell every client of this user that wants to know: its resource at `uri` has changed; the list
 * of its resources has. */
void mcp_peer_tell_updated(struct mcp_host *host, const char *user_id, const char *uri);
void mcp_peer_tell_listed(struct mcp_host *host, const char *user_id);

/* All peers are closed, and calls let go of what they wait for; `closed` comes when that is so,
 * maybe from within. */
void mcp_host_close(struct mcp_host *host, void (*closed)(void *ctx), void *ctx);

/* --- for method.c and call.c --- */

void mcp_peer_check_gone(struct mcp_peer *p);
/* Ask the client something; see call_ask(). */
struct question {
	LIST_ENTRY(question) link;
	uint64_t id;
	struct call *call;
	void (*answered)(struct call *c, const json_t *result, const json_t *error);
};
void mcp_peer_subscribe(struct mcp_peer *p, const char *uri);
void mcp_peer_unsubscribe(struct mcp_peer *p, const char *uri);
bool mcp_peer_is_subscribed(const struct mcp_peer *p, const char *uri);
