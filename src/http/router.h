/* From a method and a path to a row of the doors' tables. A path is split where its slashes
 * are before anything is decoded, so an escaped slash never separates. Among patterns that
 * fit, the one that is literal earlier wins, whatever the order of the tables. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "http/http.h"

struct router;

enum router_verdict {
	ROUTER_FOUND,
	ROUTER_NO_PATH,   /* 404 */
	ROUTER_NO_METHOD, /* 405, with `allow` */
	ROUTER_UPGRADE,   /* 426: there is only a WebSocket here */
};

#define ROUTER_ALLOW_MAX 96u

struct router_param {
	const char *name; /* in the pattern, name_size bytes */
	size_t name_size;
	const char *raw; /* in the path, undecoded, raw_size bytes */
	size_t raw_size;
};

struct router_match {
	const struct route *route;
	struct router_param params[HTTP_PARAMS_MAX];
	size_t n_params;
	char allow[ROUTER_ALLOW_MAX]; /* "GET, HEAD, POST" */
};

/* `tables` as in struct http_options; they must outlive the router. -EINVAL for a pattern that
 * is malformed, and for two rows that are the same. */
int router_new(const struct route *const *tables, struct router **ret, struct err *err);
void router_free(struct router *r);

/* `path` begins with a slash. A request that is an upgrade looks for "WS" rows first. */
enum router_verdict router_find(const struct router *r, const char *method, bool is_upgrade,
	const char *path, struct router_match *ret);

DEFINE_CLEANUP(struct router, router_free)
