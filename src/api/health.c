/* Is it well? /health for those who may use it, /health/public for anybody, and for whoever
 * started it /healthz (it has started, and answers) and /readyz (it can take runs). */

#include "api/api.h"
#include "api/meta.h"
#include "api/reply.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "core/service.h"
#include "store/store.h"

#define NS_PER_SEC UINT64_C(1000000000)

static bool store_is_well(const struct service *s)
{
	return s->store && store_health(s->store) == 0;
}

static bool runtime_is_up(const struct service *s)
{
	return s->is_up;
}

static bool keeper_answers(const struct service *s)
{
	return !s->keeper_stall.since_ns;
}

static bool is_recovered(const struct service *s)
{
	return s->is_recovered;
}

static bool is_accepting(const struct service *s)
{
	return !s->is_draining;
}

static const struct {
	const char *name;
	bool (*holds)(const struct service *s);
} checks[] = {
	{ "store", store_is_well },
	{ "runtime", runtime_is_up },
	{ "keeper", keeper_answers },
	{ "recovered", is_recovered },
	{ "accepting", is_accepting },
};

static bool is_well(const struct service *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		if (!checks[i].holds(s))
			return false;
	}
	return true;
}

/* What clients of the earlier interface look for. */
static json_t *public_json(const struct service *s)
{
	bool healthy = store_is_well(s);
	json_t *store = json_pack("{s:s,s:b}", "mode", store_mode(s->store), "healthy", healthy);

	if (!healthy)
		(void)json_object_set_new(store, "code", json_string("store_unavailable"));
	return json_pack("{s:b,s:o,s:{s:b,s:n,s:b},s:{}}", "ok", is_well(s), "store", store,
		"redis", "enabled", 0, "channel", "connected", 0, "timings");
}

void meta_handle_health_public(struct exchange *x)
{
	reply_json(x, 200, public_json(api_of(x)->service));
}

void meta_handle_health(struct exchange *x)
{
	const struct api *api = api_of(x);
	const struct service *s = api->service;
	json_t *o = public_json(s);
	uint64_t uptime = (clock_monotonic_ns() - api->started_ns) / NS_PER_SEC;

	(void)json_object_set_new(o, "version", json_string(BELLJAR_VERSION));
	(void)json_object_set_new(o, "uptime_sec", json_integer((json_int_t)uptime));
	(void)json_object_set_new(o, "policy_hash", json_string(s->policy_hash));
	(void)json_object_set_new(o, "runtime",
		json_pack("{s:s,s:b}", "name", s->runtime ? s->runtime->name : "native", "up",
			s->is_up));
	(void)json_object_set_new(o, "runs",
		json_pack("{s:I,s:I,s:I}", "live", (json_int_t)s->n_runs, "active",
			(json_int_t)s->queue.n_active, "queued", (json_int_t)s->queue.n_waiting));
	(void)json_object_set_new(o, "draining", json_boolean(s->is_draining));
	reply_json(x, 200, o);
}

void meta_handle_alive(struct exchange *x)
{
	bool has_started = api_of(x)->service->is_recovered;

	reply_json(x, has_started ? 200 : 503,
		json_pack("{s:s}", "status", has_started ? "ok" : "starting"));
}

void meta_handle_ready(struct exchange *x)
{
	const struct service *s = api_of(x)->service;
	bool ready = is_well(s);
	json_t *results = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		(void)json_object_set_new(
			results, checks[i].name, json_boolean(checks[i].holds(s)));
	json_t *loops = json_pack("{s:o,s:o}", "server", stall_json(&s->server_stall), "keeper",
		stall_json(&s->keeper_stall));
	reply_json(x, ready ? 200 : 503,
		json_pack("{s:b,s:o,s:o}", "ready", ready, "checks", results, "loops", loops));
}
