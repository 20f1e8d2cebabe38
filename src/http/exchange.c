#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/discard.h"
#include "base/err.h"
#include "base/str.h"
#include "http/http_private.h"

/* --- making one --- */

/* Room behind the head, for what is decoded: the path, and each parameter twice. */
static size_t decoded_room(size_t head_size)
{
	size_t target = head_size < HEAD_TARGET_MAX ? head_size : HEAD_TARGET_MAX;

	return 3 * target + 1 + (size_t)2 * HTTP_PARAMS_MAX;
}

static int parse_pairs(struct exchange *x)
{
	struct query_pair pairs[QUERY_PAIRS_MAX];
	int n = x->head.query && *x->head.query ? query_parse(x->head.query, pairs) : 0;

	if (n <= 0)
		return n;
	x->pairs = xcalloc((size_t)n, sizeof(pairs[0]));
	memcpy(x->pairs, pairs, (size_t)n * sizeof(pairs[0]));
	x->n_pairs = (size_t)n;
	return 0;
}

static void parse(struct exchange *x, size_t size, struct head_fault *ret_fault)
{
	char *path = x->text + size + 1;

	if (head_parse(x->text, size, &x->head, ret_fault) < 0) {
		x->head.method = x->head.method ? x->head.method : "";
		x->head.n_fields = 0;
		return;
	}
	x->keeps_alive = x->head.keeps_alive;
	if (query_unescape(x->head.path, x->head.path_size, path) < 0)
		*ret_fault = (struct head_fault){ 400, "bad_request", "the path is malformed" };
	else if (parse_pairs(x) < 0)
		*ret_fault = (struct head_fault){ 400, "bad_request", "the query is malformed" };
	else
		x->path = path;
}

struct exchange *exchange_new(
	struct conn *c, const char *head, size_t size, struct head_fault *ret_fault)
{
	struct exchange *x = xcalloc(1, sizeof(*x) + size + 1 + decoded_room(size));

	x->server = c->server;
	x->server->n_exchanges++;
	x->conn = c;
	x->path = "";
	x->head.method = "";
	x->started_ns = clock_monotonic_ns();
	x->is_tls = wire_is_tls(c->wire);
	x->is_local = wire_is_local(c->wire);
	x->sending.fd = -1;
	(void)snprintf(x->peer, sizeof(x->peer), "%s", wire_peer(c->wire));
	body_init(&x->body, BODY_NONE, HTTP_DROP_MAX);
	ret_fault->status = 0;
	if (size > 0) {
		memcpy(x->text, head, size);
		parse(x, size, ret_fault);
	}
	return x;
}

/* A parameter was part of a path that could be decoded, so it can be as well. */
static void add_params(struct exchange *x, const struct router_match *m)
{
	char *at = (char *)x->path + strlen(x->path) + 1;

	for (size_t i = 0; i < m->n_params; i++) {
		struct exchange_param *p = &x->params[i];

		p->name = m->params[i].name;
		p->name_size = m->params[i].name_size;
		p->raw = memcpy(at, m->params[i].raw, m->params[i].raw_size);
		at += m->params[i].raw_size + 1;
		p->value = at;
		at += query_unescape(m->params[i].raw, m->params[i].raw_size, at) + 1;
	}
	x->n_params = m->n_params;
}

void exchange_route_it(struct exchange *x, struct head_fault *ret_fault)
{
	static const struct head_fault faults[] = {
		[ROUTER_NO_PATH] = { 404, "not_found", "there is nothing at this path" },
		[ROUTER_NO_METHOD] = { 405, "method_not_allowed",
			"this method is not allowed at this path" },
		[ROUTER_UPGRADE] = { 426, "upgrade_required", "only a WebSocket is served here" },
	};
	struct router_match m;
	enum router_verdict verdict = router_find(
		x->server->router, x->head.method, x->head.wants_websocket, x->head.path, &m);

	ret_fault->status = 0;
	if (verdict == ROUTER_FOUND) {
		x->route = m.route;
		add_params(x, &m);
		return;
	}
	*ret_fault = faults[verdict];
	if (verdict == ROUTER_NO_METHOD)
		exchange_set_header(x, "Allow", m.allow);
	if (verdict == ROUTER_UPGRADE)
		exchange_set_header(x, "Upgrade", "websocket");
}

void exchange_fail(struct exchange *x, const struct head_fault *fault)
{
	if (x->server->options.error) {
		x->server->options.error(x, fault->status, fault->code, fault->message);
		assert(x->is_answered);
		return;
	}
	exchange_reply_bytes(
		x, fault->status, "text/plain", fault->message, strlen(fault->message));
}

static void end_sending(struct exchange *x)
{
	struct sending *s = &x->sending;

	flow_free(TAKE(s->flow));
	discard_fd(&s->fd);
	if (!s->gzip)
		return;
	x->server->n_gzips--;
	(void)deflateEnd(s->gzip);
	free(s->gzip);
}

void exchange_end(struct exchange *x)
{
	struct http_server *s = x->server;

	if (s->options.log && x->is_answered)
		s->options.log(x, x->status, x->sent, clock_monotonic_ns() - x->started_ns);
	if (x->release)
		x->release(x->data);
	end_sending(x);
	body_fini(&x->body);
	free(x->pairs);
	free(x->fields);
	free(x);
	server_exchange_ended(s);
}

/* --- asking one --- */

void *exchange_ctx(const struct exchange *x)
{
	return x->server->options.ctx;
}

const struct route *exchange_route(const struct exchange *x)
{
	return x->route;
}

const char *exchange_method(const struct exchange *x)
{
	return x->head.method;
}

const char *exchange_path(const struct exchange *x)
{
	return x->path;
}

const char *exchange_peer(const struct exchange *x)
{
	return x->peer;
}

bool exchange_is_tls(const struct exchange *x)
{
	return x->is_tls;
}

bool exchange_is_local(const struct exchange *x)
{
	return x->is_local;
}

uint64_t exchange_started_ns(const struct exchange *x)
{
	return x->started_ns;
}

const char *exchange_header(struct exchange *x, const char *name)
{
	return head_find(&x->head, name);
}

static const struct exchange_param *find_param(const struct exchange *x, const char *name)
{
	for (size_t i = 0; i < x->n_params; i++)
		if (strlen(name) == x->params[i].name_size &&
			memcmp(name, x->params[i].name, x->params[i].name_size) == 0)
			return &x->params[i];
	return NULL;
}

const char *exchange_param(const struct exchange *x, const char *name)
{
	const struct exchange_param *p = find_param(x, name);

	assert(p);
	return p->value;
}

const char *exchange_param_raw(const struct exchange *x, const char *name)
{
	const struct exchange_param *p = find_param(x, name);

	assert(p);
	return p->raw;
}

const char *exchange_query(struct exchange *x, const char *name)
{
	for (size_t i = 0; i < x->n_pairs; i++)
		if (streq(x->pairs[i].name, name))
			return x->pairs[i].value;
	return NULL;
}

bool exchange_query_at(struct exchange *x, size_t n, const char **ret_name, const char **ret_value)
{
	if (n >= x->n_pairs)
		return false;
	*ret_name = x->pairs[n].name;
	*ret_value = x->pairs[n].value;
	return true;
}

const char *exchange_body(const struct exchange *x, size_t *ret_size)
{
	*ret_size = (size_t)x->body.size;
	return x->body.data ? x->body.data : "";
}

void exchange_drop_body(struct exchange *x)
{
	body_drop(&x->body);
}

int exchange_body_fd(const struct exchange *x, uint64_t *ret_size)
{
	*ret_size = x->body.size;
	return x->body.fd;
}

void exchange_set_data(struct exchange *x, void *data, void (*release)(void *data))
{
	if (x->release)
		x->release(x->data);
	x->data = data;
	x->release = release;
}

void *exchange_data(const struct exchange *x)
{
	return x->data;
}

bool exchange_is_gone(const struct exchange *x)
{
	return !x->conn;
}

void exchange_on_gone(struct exchange *x, void (*gone)(struct exchange *x, void *ctx), void *ctx)
{
	x->gone = gone;
	x->gone_ctx = ctx;
}
