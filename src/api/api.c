#include "api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/accesslog.h"
#include "api/gate.h"
#include "api/mcp.h"
#include "api/reply.h"
#include "api/wait.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/auth.h"
#include "core/keyfile.h"
#include "core/metrics.h"
#include "core/ratelimit.h"
#include "core/service.h"
#include "core/settings.h"
#include "core/sign.h"
#include "fathom/fathom.h"

static const struct route *const tables_of_routes[] = {
	routes_runs,
	routes_sessions,
	routes_snapshots,
	routes_files,
	routes_fetch,
	routes_approvals,
	routes_kernel,
	routes_listing,
	routes_logs,
	routes_stream,
	routes_fathom,
	routes_mcp,
	routes_artifacts,
	routes_admin,
	routes_meta,
	NULL,
};

const struct route *const *api_routes(void)
{
	return tables_of_routes;
}

/* --- what is known of one request: hangs on its exchange --- */

struct visit {
	LIST_ENTRY(visit) link; /* while is_known */
	struct identity who;
	bool is_known;
	bool is_large; /* its body */
	char trace_id[33];
	char run_id[UUID_SIZE + 1];
	json_t *warnings; /* an array; NULL: none */
};

static void free_visit(void *data)
{
	struct visit *v = data;

	if (v->is_known)
		LIST_REMOVE(v, link);
	json_decref(v->warnings);
	free(v);
}

static struct visit *visit_of(struct exchange *x)
{
	struct visit *v = exchange_data(x);

	if (!v) {
		v = xnew(struct visit);
		exchange_set_data(x, v, free_visit);
	}
	return v;
}

const struct identity *api_who(const struct exchange *x)
{
	const struct visit *v = exchange_data(x);

	return v && v->is_known ? &v->who : NULL;
}

const char *api_trace_id(const struct exchange *x)
{
	const struct visit *v = exchange_data(x);

	return v ? v->trace_id : "";
}

void api_set_who(struct exchange *x, const struct identity *who, bool is_large)
{
	struct visit *v = visit_of(x);

	if (!v->is_known)
		LIST_INSERT_HEAD(&api_of(x)->visits, v, link);
	v->who = *who;
	v->is_known = true;
	v->is_large = is_large;
}

size_t api_count_open(const struct api *api, const char *user_id, size_t *ret_large)
{
	const struct visit *v;
	size_t n = 0;

	*ret_large = 0;
	LIST_FOREACH(v, &api->visits, link)
	{
		bool is_own = streq(v->who.user_id, user_id);

		n += is_own;
		*ret_large += is_own && v->is_large;
	}
	return n;
}

void api_set_trace(struct exchange *x, const char trace_id[33])
{
	(void)snprintf(
		visit_of(x)->trace_id, sizeof(((struct visit *)0)->trace_id), "%s", trace_id);
}

void api_note_run(struct exchange *x, const char *run_id)
{
	if (uuid_is_valid(run_id))
		memcpy(visit_of(x)->run_id, run_id, UUID_SIZE + 1);
}

void api_warn(struct exchange *x, json_t *warnings)
{
	struct visit *v = visit_of(x);

	if (!v->warnings)
		v->warnings = json_array();
	(void)json_array_extend(v->warnings, warnings);
}

json_t *api_warnings(const struct exchange *x)
{
	const struct visit *v = exchange_data(x);

	return v ? v->warnings : NULL;
}

/* --- after every answer --- */

/* A label must not be what somebody made up. */
static const char *known_method(const char *method)
{
	static const char *const known[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE",
		"OPTIONS" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (streq(known[i], method))
			return known[i];
	}
	return "other";
}

static void on_answered(const struct exchange *x, int status, uint64_t bytes, uint64_t took_ns)
{
	const struct api *api = api_of(x);
	const struct visit *v = exchange_data(x);
	const struct route *route = exchange_route(x);
	const char *method = known_method(exchange_method(x));
	struct metrics *metrics = api->service->metrics;
	char code[16];
	struct accesslog_entry entry = {
		.method = method,
		.route = route ? route->pattern : NULL,
		.status = status,
		.bytes = bytes,
		.took_ns = took_ns,
		.peer = exchange_peer(x),
		.user_id = v && v->is_known ? v->who.user_id : NULL,
		.trace_id = v ? v->trace_id : NULL,
		.run_id = v ? v->run_id : NULL,
	};

	(void)snprintf(code, sizeof(code), "%d", status);
	metrics_add(metrics, METRIC_HTTP_REQUESTS, METRICS_LABELS(method, code), 1);
	metrics_observe(
		metrics, METRIC_HTTP_SECONDS, METRICS_LABELS(method), (double)took_ns / 1e9);
	if (api->settings->log_level <= LOG_LEVEL_INFO)
		accesslog_write(&entry);
}

static uint64_t limit_of(const struct exchange *x)
{
	return api_of(x)->settings->max_upload_mb << 20;
}

/* --- from start to end --- */

static void api_free(struct api *api)
{
	auth_free(api->auth);
	ratelimit_free(api->per_user);
	ratelimit_free(api->per_ip);
	keyfile_wipe(api->signing_secret);
	free(api->spool_dir);
	free(api);
}

/* What the server itself finds. */
static void on_fault(struct exchange *x, int status, const char *code, const char *message)
{
	const struct route *route = exchange_route(x);

	if (status == 413 && route && streq(route->pattern, MCP_PATH))
		mcp_refuse_size(x);
	else
		reply_error(x, status, code, message);
}

static int listen_http(struct api *api, struct err *err)
{
	const struct settings *c = api->settings;
	struct http_options options = {
		.host = c->socket ? NULL : c->host,
		.port = (uint16_t)c->port,
		.socket = c->socket,
		.tls_cert = c->tls_cert,
		.tls_key = c->tls_key,
		.spool_dir = api->spool_dir,
		.routes = tables_of_routes,
		.gate = gate_check,
		.error = on_fault,
		.log = on_answered,
		.limit_of = limit_of,
		.ctx = api,
	};

	return http_start(api->service->loop, &options, &api->http, err);
}

int api_start(struct service *service, struct api **ret, struct err *err)
{
	struct api *api = xnew(struct api);
	const struct settings *c = service->settings;

	api->service = service;
	api->settings = c;
	api->started_ns = clock_monotonic_ns();
	api->per_user = ratelimit_new(c->rate_per_user);
	api->per_ip = ratelimit_new(c->rate_per_ip);
	api->spool_dir = service_path(service, "tmp");
	int r = path_make_dirs(api->spool_dir, 0700, err);
	if (r == 0)
		r = auth_open(c, &api->auth, err);
	if (r == 0)
		r = sign_load_secret(c, &api->signing_secret, err);
	if (r == 0)
		r = listen_http(api, err);
	if (r < 0) {
		api_free(api);
		return r;
	}
	api->fathom = fathom_open(service, api->per_user);
	api->mcp = mcp_door_open(api);
	*ret = api;
	return 0;
}

struct closing {
	struct api *api;
	void (*done)(void *ctx);
	void *ctx;
};

static void on_all_closed(void *ctx)
{
	AUTO_FREE struct closing *c = ctx;

	api_free(c->api);
	c->done(c->ctx);
}

static void on_fathom_closed(void *ctx)
{
	struct closing *c = ctx;

	mcp_door_close(c->api->mcp, on_all_closed, c);
}

static void on_http_closed(void *ctx)
{
	struct closing *c = ctx;

	fathom_close(c->api->fathom, on_fathom_closed, c);
}

void api_close(struct api *api, void (*done)(void *ctx), void *ctx)
{
	struct closing *c = xnew(struct closing);

	*c = (struct closing){ .api = api, .done = done, .ctx = ctx };
	http_stop_listening(api->http);
	wait_end_all(api);
	mcp_door_end(api->mcp);
	http_close(api->http, on_http_closed, c);
}
