/* Who may come in, before any of the body is read: the Host header against DNS rebinding, the
 * Origin header against other people's web pages, rates per address, credentials, rates per
 * user and how many requests of it are under way, and the role that a route asks for. */
#pragma once
#include <stdbool.h>

#include "http/http.h"

struct settings;

#define GATE_REQUESTS_MAX 1024u /* of one user under way, a quarter of all connections */
#define GATE_LARGE_MAX    16u   /* of these, with a body that takes memory or disk: */
#define GATE_LARGE_BYTES  (64u << 10)

/* An http_gate_fn. */
int gate_check(struct exchange *x, const struct route *route);

/* May a Host header say this ("localhost:8080", "[::1]:8080")? The port is not looked at. When
 * we listen on every address, any address may be named, which a page with a rebound name
 * can not do. */
bool gate_is_host_allowed(const struct settings *c, const char *host);

/* May a web page of this origin ("https://example.org") call us? It may if the origin is
 * configured, or is the server's own: that of the Host header (NULL: none), which was checked, or
 * that of the public URL. Another port of the same name is another server. */
bool gate_is_origin_allowed(const struct settings *c, const char *host, const char *origin);

/* The bucket of an address: IPv6 by its /64, since everybody has that many. */
#define GATE_BUCKET_SIZE 48
void gate_bucket(const char *peer, char ret[GATE_BUCKET_SIZE]);

/* The trace id of a traceparent header, 32 digits; false, and nothing is changed, for one
 * that is malformed. */
bool gate_parse_trace(const char *header, char ret[33]);
