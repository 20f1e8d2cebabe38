/* MCP over Streamable HTTP, for the files mcp*.c: a client's session, what it posted and waits for,
 * and the streams of events that it reads.
 *
 * An answer goes out as JSON when it is the first thing there is to say, which it is for whatever
 * is quick; else, if the client takes that, as a stream of events that ends with it. Events are
 * kept for a while, so that a client whose connection was cut gets the rest of a stream from where
 * it was (Last-Event-ID).
 *
 * A request of a stateless revision has a session for itself alone, which has no name and is gone
 * with the answer. Nothing is kept of it, and who hangs up cancels it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/uuid.h"
#include "http/http.h"
#include "mcp/mcp_peer.h"

struct api;
struct flow;
struct mcp_door;
struct mcp_event;
struct mcp_meta;
struct mcp_session;
struct shared;

#define MCP_PATH "/mcp"

#define MCP_EVENTS_BYTES  (16u << 20) /* kept for one session; the oldest go */
#define MCP_ALL_BYTES     (32u << 20) /* ... for all; the session that has most of them goes */
#define MCP_STREAMS_MAX   32u         /* kept for one session; those that are over go first */
#define MCP_LISTENING_MAX 8u          /* GET streams of one session at the same time */
#define MCP_SINGLES_MAX   256u        /* stateless requests of one user under way */
#define MCP_PATIENCE_MS   1000u       /* until an answer becomes a stream */
#define MCP_KEEP_ALIVE_MS 15000u      /* between signs of life on a quiet stream */
#define MCP_RETRY_MS      1000u       /* after which a client is told to come back */

/* --- a stream of events, mcp_stream.c --- */

struct mcp_stream {
	TAILQ_ENTRY(mcp_stream) link;
	struct mcp_session *session;
	unsigned number;
	bool is_general; /* what belongs to no request goes here */
	bool is_over;    /* no event follows */
	TAILQ_HEAD(mcp_events, mcp_event) events;
	uint64_t next_seq;
	uint64_t sent_seq;     /* up to this one they were given to the connection */
	struct mcp_pipe *pipe; /* NULL: nobody is connected */
	uint64_t told_ms;      /* when something was last said */
};

/* A new one; begins with an event without a message when this client understands that. */
struct mcp_stream *mcp_stream_new(struct mcp_session *s, bool is_general);
struct mcp_stream *mcp_stream_find(struct mcp_session *s, unsigned number);
void mcp_stream_free(struct mcp_stream *t);

/* Takes the message. */
void mcp_stream_add(struct mcp_stream *t, json_t *message);
void mcp_stream_end(struct mcp_stream *t);

/* Answer with what follows the event `seq`, and go on. */
void mcp_stream_connect(struct mcp_stream *t, struct exchange *x, uint64_t seq);

/* The client shall come back for the rest: the connection ends, the stream does not. */
void mcp_stream_disconnect(struct mcp_stream *t);

/* A sign of life, if it was quiet for long. */
void mcp_stream_tick(struct mcp_stream *t, uint64_t now_ms);

/* "3-17". False for what is no id of an event of ours. */
bool mcp_stream_parse_id(const char *text, unsigned *ret_number, uint64_t *ret_seq);

/* --- a session, mcp_session.c --- */

/* Something was posted, and is not answered yet. */
struct mcp_post {
	LIST_ENTRY(mcp_post) link;
	struct mcp_session *session;
	struct exchange *x; /* NULL once it is answered by a stream */
	uint64_t since_ms;
	bool accepts_events;
	bool is_batch;
	size_t n_pending; /* requests without an answer */
	json_t *answers;
	struct mcp_stream *stream;
};

struct mcp_session {
	LIST_ENTRY(mcp_session) link;
	struct mcp_door *door;
	bool is_single;         /* for one stateless request */
	char id[UUID_SIZE + 1]; /* "": it is not to be found */
	struct mcp_peer *peer;
	uint64_t used_ms;
	bool is_ended;
	LIST_HEAD(, mcp_post) posts;
	TAILQ_HEAD(mcp_streams, mcp_stream) streams; /* in the order they were made */
	size_t n_streams;
	unsigned next_stream;
	size_t n_bytes; /* of events */
};

struct mcp_door {
	struct api *api;
	struct mcp_host host;
	LIST_HEAD(mcp_sessions, mcp_session) sessions;
	struct mcp_sessions singles;
	uv_timer_t timer; /* once a second while there are sessions */
	size_t n_bytes;   /* of events */
	bool is_closing;
	void (*done)(void *ctx);
	void *ctx;
};

/* For whoever is asking; NULL when it was answered that there can not be one. */
struct mcp_session *mcp_session_new(struct mcp_door *d, struct exchange *x);

/* The same for one stateless request, which said `meta`. */
struct mcp_session *mcp_session_new_single(
	struct mcp_door *d, struct exchange *x, const struct mcp_meta *meta);

/* The one of this user with this id, or NULL. */
struct mcp_session *mcp_session_find(struct mcp_door *d, const char *id, const char *user_id);

/* Whoever waits is told that it is over; it may be gone afterwards. Runs go on. */
void mcp_session_end(struct mcp_session *s);

/* What `json`, a message or a batch, says is heard, and answered now or later. */
void mcp_session_hear(
	struct mcp_session *s, struct exchange *x, const json_t *json, bool accepts_events);

/* Is a single one over? It may be gone afterwards. */
void mcp_session_settle(struct mcp_session *s);
/* Whoever read its stream hung up; likewise. */
void mcp_session_hung_up(struct mcp_session *s);

/* Make room among the streams and events that are kept. */
void mcp_session_trim(struct mcp_session *s);

/* Drop something that was sent, and is only kept in case its client comes back. False when there
 * is nothing of that kind. */
bool mcp_session_drop_sent(struct mcp_session *s);

/* --- answers --- */

/* An error of the protocol, with a status of HTTP; `id` may be NULL. */
void mcp_refuse(struct exchange *x, int status, const json_t *id, int code, const char *text);

/* ... that this version is not spoken, and which are. */
void mcp_refuse_version(struct exchange *x, const json_t *id, const char *version);
/* The message is larger than any may be: 413, and what to do with a large file. */
void mcp_refuse_size(struct exchange *x);

/* --- requests of stateless revisions, mcp_stateless.c --- */

bool mcp_is_stateless(struct exchange *x, const json_t *json);
/* Check what the headers and the message say, and answer. */
void mcp_stateless_hear(struct exchange *x, const json_t *json, bool accepts_events);

/* --- the door: api.c opens and closes it --- */

struct mcp_door *mcp_door_open(struct api *api);

/* Events of all are too many: soon, but not from within this call, there is room again. */
void mcp_door_relieve(struct mcp_door *d);

/* Everybody is told that it is over, so that no exchange is left; nothing new begins. */
void mcp_door_end(struct mcp_door *d);
/* ... and then, when there are no connections any more. */
void mcp_door_close(struct mcp_door *d, void (*done)(void *ctx), void *ctx);
