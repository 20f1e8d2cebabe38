#include "api/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/fields.h"
#include "api/reply.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/auth.h"
#include "core/problem.h"
#include "core/ratelimit.h"
#include "core/service.h"
#include "core/settings.h"

#define HOST_SIZE 256u /* of a name, with its terminator; a longer one is no name */

/* --- Host --- */

static bool is_port(const char *text)
{
	return text[0] && strspn(text, "0123456789") == strlen(text);
}

/* "name", "name:80", "[::1]" or "[::1]:80" of `size` bytes; the name alone. */
static bool parse_authority(const char *text, size_t size, char ret[HOST_SIZE])
{
	char copy[HOST_SIZE];

	if (size == 0 || size >= sizeof(copy))
		return false;
	memcpy(copy, text, size);
	copy[size] = '\0';
	char *name = copy[0] == '[' ? copy + 1 : copy;
	char *end = copy[0] == '[' ? strchr(copy, ']') : copy + strcspn(copy, ":");
	if (!end)
		return false;
	const char *rest = copy[0] == '[' ? end + 1 : end;
	if (rest[0] && (rest[0] != ':' || !is_port(rest + 1)))
		return false;
	*end = '\0';
	memcpy(ret, name, strlen(name) + 1);
	return name[0] != '\0';
}

/* The host of "https://name:80/path"; a path is only allowed where somebody may write one. */
static bool parse_url_host(const char *url, bool may_have_path, char ret[HOST_SIZE])
{
	const char *rest = str_after(url, "https://");

	if (!rest)
		rest = str_after(url, "http://");
	if (!rest)
		return false;
	size_t size = strcspn(rest, "/?#");
	if (rest[size] && !may_have_path)
		return false;
	return parse_authority(rest, size, ret);
}

static bool is_address(const char *name)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool is_in(const char *const *list, const char *name)
{
	for (; list && *list; list++) {
		if (strcasecmp(*list, name) == 0)
			return true;
	}
	return false;
}

static bool listens_everywhere(const struct settings *c)
{
	return c->host && (streq(c->host, "0.0.0.0") || streq(c->host, "::"));
}

static bool is_name_allowed(const struct settings *c, const char *name)
{
	static const char *const local[] = { "localhost", "127.0.0.1", "::1", NULL };
	char public_name[HOST_SIZE];

	if (is_in(local, name) || is_in((const char *const *)c->allowed_hosts, name))
		return true;
	if (c->host && strcasecmp(c->host, name) == 0)
		return true;
	if (listens_everywhere(c) && is_address(name))
		return true;
	return c->public_url && parse_url_host(c->public_url, true, public_name) &&
	       strcasecmp(public_name, name) == 0;
}

bool gate_is_host_allowed(const struct settings *c, const char *host)
{
	char name[HOST_SIZE];

	return parse_authority(host, strlen(host), name) && is_name_allowed(c, name);
}

/* --- Origin --- */

/* The scheme is not compared: a proxy in front of this server may speak TLS for it. */
static bool is_origin_of_host(const char *host, const char *origin)
{
	return host && strcasecmp(strstr(origin, "://") + 3, host) == 0;
}

static bool is_origin_of_url(const char *url, const char *origin)
{
	size_t size = strlen(origin);

	return url && strncasecmp(url, origin, size) == 0 && strchr("/?#", url[size]);
}

bool gate_is_origin_allowed(const struct settings *c, const char *host, const char *origin)
{
	char name[HOST_SIZE];

	if (is_in((const char *const *)c->allowed_origins, origin))
		return true;
	return parse_url_host(origin, false, name) &&
	       (is_origin_of_host(host, origin) || is_origin_of_url(c->public_url, origin));
}

static int check_names(struct exchange *x)
{
	const struct settings *c = api_of(x)->settings;
	const char *host = exchange_header(x, "host");
	const char *origin = exchange_header(x, "origin");
	bool is_unix = streq(exchange_peer(x), "unix");

	if (!is_unix && (!host || !gate_is_host_allowed(c, host))) {
		reply_refusal(x, "forbidden",
			"the Host '%.100s' is not one of this server; SANDBOX_ALLOWED_HOSTS names "
			"further ones",
			host ? host : "");
		return -EPERM;
	}
	if (!origin || gate_is_origin_allowed(c, host, origin))
		return 0;
	reply_refusal(x, "forbidden",
		"pages of the Origin '%.100s' may not call this server; SANDBOX_ALLOWED_ORIGINS "
		"names those that may",
		origin);
	return -EPERM;
}

/* --- rates --- */

void gate_bucket(const char *peer, char ret[GATE_BUCKET_SIZE])
{
	unsigned char a[16];

	if (inet_pton(AF_INET6, peer, a) != 1) {
		(void)snprintf(ret, GATE_BUCKET_SIZE, "%s", peer);
		return;
	}
	(void)snprintf(ret, GATE_BUCKET_SIZE, "%02x%02x:%02x%02x:%02x%02x:%02x%02x::/64", a[0],
		a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

static int check_rate(
	struct exchange *x, struct ratelimit *limit, const char *scope, const char *key)
{
	struct problem p = { 0 };
	uint64_t wait = ratelimit_take(limit, key, clock_monotonic_ns());

	if (wait == 0)
		return 0;
	(void)problem_set(&p, "rate_limited", "too many requests of one %s; try again in %llu s",
		scope, (unsigned long long)wait);
	problem_add(&p, "scope", json_string(scope));
	problem_add(&p, "retry_after", json_integer((json_int_t)wait));
	p.retry_after = wait;
	reply_problem(x, &p);
	problem_fini(&p);
	return -EBUSY;
}

static int check_address_rate(struct exchange *x)
{
	char bucket[GATE_BUCKET_SIZE];

	if (streq(exchange_peer(x), "unix"))
		return 0; /* a proxy, which speaks for many */
	gate_bucket(exchange_peer(x), bucket);
	return check_rate(x, api_of(x)->per_ip, "address", bucket);
}

/* --- credentials --- */

/* A browser can not set headers of a WebSocket, so there they may be in the query. */
static int check_query_token(struct exchange *x, const char *token, struct identity *ret)
{
	size_t size = strlen(token) + sizeof("Bearer ");
	AUTO_FREE char *header = xcalloc(1, size);

	(void)snprintf(header, size, "Bearer %s", token);
	int r = auth_check(api_of(x)->auth, NULL, header, ret);
	explicit_bzero(header, size);
	return r;
}

static int authenticate(struct exchange *x, const struct route *route, struct identity *ret)
{
	const char *key = exchange_header(x, "x-api-key");
	const char *authorization = exchange_header(x, "authorization");
	const char *token = streq(route->method, "WS") ? exchange_query(x, "auth_token") : NULL;

	if (!key && !authorization && token)
		return check_query_token(x, token, ret);
	if (!key && !authorization && exchange_is_local(x))
		return auth_local(api_of(x)->auth, ret);
	return auth_check(api_of(x)->auth, key, authorization, ret);
}

/* Or one that may become so. */
static bool has_large_body(struct exchange *x, const struct route *route)
{
	const char *length = exchange_header(x, "content-length");
	uint64_t size = 0;

	if (route->body == BODY_NONE)
		return false;
	return exchange_header(x, "transfer-encoding") ||
	       (length && str_parse_u64(length, GATE_LARGE_BYTES, &size) < 0);
}

/* One user can take neither all connections nor all of the memory or the disk. */
static int check_open(struct exchange *x, const struct route *route, const char *user_id)
{
	struct problem p = { 0 };
	size_t n_large = 0;
	size_t n = api_count_open(api_of(x), user_id, &n_large);
	bool is_large = n_large > GATE_LARGE_MAX && has_large_body(x, route);

	if (n <= GATE_REQUESTS_MAX && !is_large)
		return 0;
	(void)problem_set(&p, "rate_limited", "more than %u %s of one user at the same time",
		is_large ? GATE_LARGE_MAX : GATE_REQUESTS_MAX,
		is_large ? "large requests" : "requests");
	problem_add(&p, "scope", json_string("user"));
	p.retry_after = 1;
	reply_problem(x, &p);
	problem_fini(&p);
	return -EBUSY;
}

/* Before it is spooled: afterwards it would be too late. */
static int check_space(struct exchange *x, const struct route *route)
{
	struct problem p = { 0 };

	if (route->body != BODY_FILE || service_check_space(api_of(x)->service, &p) == 0)
		return 0;
	reply_problem(x, &p);
	problem_fini(&p);
	return -ENOSPC;
}

static int check_who(struct exchange *x, const struct route *route)
{
	struct identity who;
	int r = authenticate(x, route, &who);

	if (r < 0) {
		if (route->access == ACCESS_PUBLIC)
			return 0;
		if (r == -ENOENT)
			reply_unauthorized(x);
		else
			reply_wrong_credentials(x);
		return -EACCES;
	}
	api_set_who(x, &who, has_large_body(x, route));
	if (check_rate(x, api_of(x)->per_user, "user", who.user_id) < 0 ||
		check_open(x, route, who.user_id) < 0)
		return -EBUSY;
	if (route->access == ACCESS_ADMIN && !who.admin) {
		reply_refusal(x, "forbidden", "Access denied. Required role(s): admin");
		return -EPERM;
	}
	return check_space(x, route);
}

/* --- traces --- */

static bool is_zero(const char *digits, size_t size)
{
	return strspn(digits, "0") >= size;
}

/* "00-<32 digits>-<16 digits>-<2 digits>"; a later version may have more behind a dash. */
bool gate_parse_trace(const char *header, char ret[33])
{
	bool is_first_version = strncmp(header, "00", 2) == 0;
	char copy[56];

	if (strlen(header) < 55 || (header[55] && (is_first_version || header[55] != '-')))
		return false;
	memcpy(copy, header, 55);
	copy[2] = copy[35] = copy[52] = copy[55] = '\0';
	if (header[2] != '-' || header[35] != '-' || header[52] != '-' || streq(copy, "ff"))
		return false;
	if (!str_is_hex(copy, 2) || !str_is_hex(copy + 3, 32) || !str_is_hex(copy + 36, 16) ||
		!str_is_hex(copy + 53, 2) || is_zero(copy + 3, 32) || is_zero(copy + 36, 16))
		return false;
	memcpy(ret, copy + 3, 33);
	return true;
}

static void take_trace(struct exchange *x)
{
	const char *header = exchange_header(x, "traceparent");
	char uuid[UUID_SIZE + 1];
	char id[33];

	if (!header || !gate_parse_trace(header, id)) {
		uuid_make(uuid);
		uuid_to_hex(uuid, id);
	}
	api_set_trace(x, id);
	exchange_set_header(x, "X-Trace-Id", id);
}

int gate_check(struct exchange *x, const struct route *route)
{
	take_trace(x);
	int r = check_names(x);
	/* Many may ask from one address, and none of them can wait. */
	if (route->access == ACCESS_PROBE)
		return r;
	if (r == 0)
		r = check_address_rate(x);
	if (r == 0)
		r = check_who(x, route);
	return r == 0 ? fields_check_query(x, route) : r;
}
