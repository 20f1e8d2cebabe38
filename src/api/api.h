/* The REST and WebSocket door of the run service, below /api/v1/sandbox, and the files of
 * sessions, below /files. It translates and
 * decides nothing: a request becomes a call of core/, and what that says becomes an answer.
 *
 *	gate.c       who may come in: Host, Origin, credentials, rates
 *	reply.c      answers and errors, which all have one shape
 *	runs.c ...   one file per resource, each with a table of routes
 *
 * On the loop of the service, which must outlive it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/identity.h"
#include "http/http.h"

struct api;
struct auth;
struct err;
struct fathom;
struct mcp_door;
struct ratelimit;
struct service;
struct settings;
struct visit;
struct wait;

#define API_BASE "/api/v1/sandbox"

/* What a route asks of who calls it. */
enum access {
	ACCESS_PUBLIC, /* anybody; credentials that are given are looked at all the same */
	ACCESS_USER,   /* somebody we know */
	ACCESS_ADMIN,  /* an admin */
	ACCESS_PROBE,  /* anybody, as often as they like: it costs nothing and says nothing */
};

/* exchange_ctx() of every exchange. */
struct api {
	struct service *service;         /* borrowed */
	const struct settings *settings; /* the service's */
	struct auth *auth;
	struct ratelimit *per_user;
	struct ratelimit *per_ip;
	char *signing_secret; /* of URLs of streams and files */
	char *spool_dir;
	struct http_server *http;
	uint64_t started_ns;             /* CLOCK_MONOTONIC */
	struct fathom *fathom;           /* the door behind /ws */
	struct mcp_door *mcp;            /* the one behind /mcp */
	struct wait *waits;              /* answers that are held back, wait.h */
	LIST_HEAD(visits, visit) visits; /* requests under way of users we know */
};

static inline struct api *api_of(const struct exchange *x)
{
	return exchange_ctx(x);
}

/* Load keys and secrets and listen as the settings of the service say. Returns 0 with an
 * object for api_close(), or a negative errno. */
int api_start(struct service *service, struct api **ret, struct err *err);

/* Answers that are held back for a run go out now, with the run as it is; then everything is
 * closed, and `done` is called when the object is gone. The service must still be there. */
void api_close(struct api *api, void (*done)(void *ctx), void *ctx);

/* Who is asking; NULL only on a public route, for somebody we do not know. */
const struct identity *api_who(const struct exchange *x);

/* The W3C trace that the request belongs to, 32 hexadecimal digits. */
const char *api_trace_id(const struct exchange *x);

/* The request turned out to be about this run; for the log. */
void api_note_run(struct exchange *x, const char *run_id);

/* `warnings` of the answer, if that is an object that says it worked: an array of texts, to which
 * these are added. NULL while there are none. */
void api_warn(struct exchange *x, json_t *warnings);
json_t *api_warnings(const struct exchange *x);

/* For the gate. */
void api_set_who(struct exchange *x, const struct identity *who, bool is_large);

/* How many requests of a user are under way, and how many of them are large. */
size_t api_count_open(const struct api *api, const char *user_id, size_t *ret_large);
void api_set_trace(struct exchange *x, const char trace_id[33]);

/* Every table of routes, ended by NULL; each of them ends with a row without a method. */
const struct route *const *api_routes(void);
extern const struct route routes_runs[];
extern const struct route routes_sessions[];
extern const struct route routes_snapshots[];
extern const struct route routes_files[];
extern const struct route routes_fetch[];
extern const struct route routes_approvals[];
extern const struct route routes_kernel[];
extern const struct route routes_listing[];
extern const struct route routes_logs[];
extern const struct route routes_stream[];
extern const struct route routes_fathom[];
extern const struct route routes_mcp[];
extern const struct route routes_artifacts[];
extern const struct route routes_admin[];
extern const struct route routes_meta[];
