#include "api/meta.h"

#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "core/metrics.h"
#include "core/service.h"

/* docs/openapi.yaml as JSON. */
extern const char openapi_json[];
extern const size_t openapi_json_size;

static void handle_openapi(struct exchange *x)
{
	exchange_set_header(x, "Cache-Control", "no-cache");
	exchange_reply_bytes(x, 200, "application/json", openapi_json, openapi_json_size);
}

static void handle_root(struct exchange *x)
{
	reply_json(x, 200,
		json_pack("{s:s,s:s,s:{s:s,s:s,s:s,s:s}}", "name", "belljar", "version",
			BELLJAR_VERSION, "links", "api", API_BASE, "openapi", "/openapi.json",
			"runtimes", API_BASE "/runtimes", "health", API_BASE "/health/public"));
}

/* Prometheus on this machine needs no key; somebody whom a proxy here forwards does. */
static bool is_neighbour(struct exchange *x)
{
	static const char *const near[] = { "127.0.0.1", "::1", "unix" };
	static const char *const forwarded[] = { "forwarded", "x-forwarded-for", "x-real-ip" };

	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++) {
		if (exchange_header(x, forwarded[i]))
			return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(near); i++) {
		if (streq(exchange_peer(x), near[i]))
			return true;
	}
	return false;
}

static void handle_metrics(struct exchange *x)
{
	if (!api_who(x) && !is_neighbour(x)) {
		reply_unauthorized(x);
		return;
	}
	AUTO_FREE char *text = metrics_text(api_of(x)->service->metrics);
	exchange_reply_bytes(
		x, 200, "text/plain; version=0.0.4; charset=utf-8", text, strlen(text));
}

const struct route routes_meta[] = {
	{ "GET", API_BASE "/runtimes", ACCESS_USER, BODY_NONE, 0, meta_handle_runtimes, "" },
	{ "GET", API_BASE "/health", ACCESS_USER, BODY_NONE, 0, meta_handle_health, "" },
	{ "GET", API_BASE "/health/public", ACCESS_PUBLIC, BODY_NONE, 0, meta_handle_health_public,
		"" },
	{ "GET", "/healthz", ACCESS_PROBE, BODY_NONE, 0, meta_handle_alive },
	{ "GET", "/readyz", ACCESS_PROBE, BODY_NONE, 0, meta_handle_ready },
	{ "GET", "/metrics", ACCESS_PUBLIC, BODY_NONE, 0, handle_metrics },
	{ "GET", "/openapi.json", ACCESS_PUBLIC, BODY_NONE, 0, handle_openapi },
	{ "GET", "/", ACCESS_PUBLIC, BODY_NONE, 0, handle_root },
	{ 0 },
};
