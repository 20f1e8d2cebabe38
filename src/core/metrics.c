#include "core/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define LABELS_MAX  3
#define BUCKETS_MAX 20
#define SLOTS       (2 * METRICS_SERIES_MAX) /* half of them stay empty: probing is short */

enum metric_type {
	COUNTER,
	GAUGE,
	HISTOGRAM,
};

static const char *const type_names[] = {
	[COUNTER] = "counter",
	[GAUGE] = "gauge",
	[HISTOGRAM] = "histogram",
};

/* Upper bounds in seconds, ascending; ended by 0. Runs last up to what a policy allows. */
static const double run_buckets[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
	2.5, 5, 10, 30, 60, 120, 300, 600, 0 };

/* Starts and answers are promised in milliseconds, where these are close together. */
static const double quick_buckets[] = { 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015,
	0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 0 };

_Static_assert(ARRAY_SIZE(run_buckets) <= BUCKETS_MAX + 1, "a series has room for them");
_Static_assert(ARRAY_SIZE(quick_buckets) <= BUCKETS_MAX + 1, "a series has room for them");

static const struct definition {
	const char *name;
	enum metric_type type;
	const char *help;
	const char *labels[LABELS_MAX + 1]; /* ended by NULL */
	const double *buckets;              /* of a histogram */
} definitions[METRIC_COUNT] = {
	[METRIC_SESSIONS_CREATED] = { "sandbox_sessions_created_total", COUNTER,
		"Sessions that were created.", { "runtime" } },
	[METRIC_RUNS_STARTED] = { "sandbox_runs_started_total", COUNTER, "Runs that were accepted.",
		{ "runtime" } },
	[METRIC_RUNS_COMPLETED] = { "sandbox_runs_completed_total", COUNTER,
		"Runs that ended, in whatever way.", { "runtime", "outcome", "reason" } },
	[METRIC_RUN_DURATION] = { "sandbox_run_duration_seconds", HISTOGRAM,
		"Time from running to the end of a run.", { "runtime", "outcome", "reason" },
		run_buckets },
	[METRIC_START_LATENCY] = { "sandbox_start_latency_seconds", HISTOGRAM,
		"Time from the acceptance of a run until it is running.", { "runtime" },
		quick_buckets },
	[METRIC_QUEUE_WAIT] = { "sandbox_queue_wait_seconds", HISTOGRAM,
		"Time a run waited for its turn.", { "runtime" }, quick_buckets },
	[METRIC_QUEUE_FULL] = { "sandbox_queue_full_total", COUNTER,
		"Runs refused because a queue or a quota was full.",
		{ "component", "runtime", "reason" } },
	[METRIC_QUEUE_TTL_EXPIRED] = { "sandbox_queue_ttl_expired_total", COUNTER,
		"Runs that waited longer than they may.", { "component", "runtime", "reason" } },
	[METRIC_RUNS] = { "sandbox_runs", GAUGE, "Runs that are not over, by phase.", { "phase" } },
	[METRIC_SESSIONS] = { "sandbox_sessions", GAUGE, "Sessions that exist.", { 0 } },
	[METRIC_UPLOAD_BYTES] = { "sandbox_upload_bytes_total", COUNTER,
		"Bytes written into workspaces by uploads.", { "kind" } },
	[METRIC_UPLOAD_FILES] = { "sandbox_upload_files_total", COUNTER,
		"Files written into workspaces by uploads.", { "kind" } },
	[METRIC_ARTIFACT_BYTES] = { "sandbox_artifact_bytes_total", COUNTER,
		"Bytes of artifacts that were captured.", { "runtime" } },
	[METRIC_LOG_BYTES] = { "sandbox_log_bytes_total", COUNTER, "Bytes of output of runs.",
		{ "runtime" } },
	[METRIC_LOG_TRUNCATIONS] = { "sandbox_log_truncations_total", COUNTER,
		"Streams that were cut off.", { "component", "reason" } },
	[METRIC_WS_OPENED] = { "sandbox_ws_connections_opened_total", COUNTER,
		"WebSocket connections that were opened.", { "component" } },
	[METRIC_WS_HEARTBEATS] = { "sandbox_ws_heartbeats_sent_total", COUNTER,
		"Heartbeats sent on WebSocket connections.", { "component" } },
	[METRIC_WS_DISCONNECTS] = { "sandbox_ws_disconnects_total", COUNTER,
		"WebSocket connections that ended.", { "component" } },
	[METRIC_WS_QUEUE_DROPS] = { "sandbox_ws_queue_drops_total", COUNTER,
		"Frames that were not sent to a slow reader.", { "component", "reason" } },
	[METRIC_HTTP_REQUESTS] = { "sandbox_http_requests_total", COUNTER,
		"HTTP requests that were answered.", { "method", "code" } },
	[METRIC_HTTP_SECONDS] = { "sandbox_http_request_seconds", HISTOGRAM,
		"Time from a request's head to the end of its answer.", { "method" },
		quick_buckets },
	[METRIC_STALLS] = { "sandbox_loop_stalls_total", COUNTER,
		"Times a loop stood still for more than 2 s, and served nobody.", { "loop" } },
	[METRIC_STALL_SECONDS] = { "sandbox_loop_stall_seconds_total", COUNTER,
		"For how long, when it was over.", { "loop" } },
	[METRIC_STALLED] = { "sandbox_loop_stalled_seconds", GAUGE,
		"For how long it has stood still by now.", { "loop" } },
	[METRIC_WARM_BOXES] = { "sandbox_warm_boxes", GAUGE,
		"Boxes that were made ahead: waiting, or still being made.",
		{ "image", "language", "state" } },
	[METRIC_WARM_HITS] = { "sandbox_warm_hits_total", COUNTER,
		"Runs for which a box was waiting.", { "image", "language" } },
	[METRIC_WARM_MISSES] = { "sandbox_warm_misses_total", COUNTER,
		"Runs for which none was waiting.", { "image", "language" } },
	[METRIC_WARM_REFILLS] = { "sandbox_warm_refills_total", COUNTER,
		"Boxes that were made ahead.", { "image", "language" } },
	[METRIC_WARM_SECONDS] = { "sandbox_warm_refill_seconds_total", COUNTER,
		"Time it took to make them.", { "image", "language" } },
	[METRIC_DROPPED] = { "sandbox_metrics_dropped_total", COUNTER,
		"Updates of metrics for which there was no room.", { 0 } },
};

struct series {
	struct series *next; /* of the same metric */
	enum metric id;
	char values[LABELS_MAX][METRICS_VALUE_MAX + 1]; /* zero behind their ends */
	double value;                                   /* of a histogram: the sum */
	uint64_t count;
	uint64_t buckets[BUCKETS_MAX]; /* not cumulative */
};

struct metrics {
	struct series *slots[SLOTS];
	struct series *first[METRIC_COUNT];
	struct series **last[METRIC_COUNT];
	size_t n_series;
};

static size_t count_labels(const struct definition *d)
{
	size_t n = 0;

	while (d->labels[n])
		n++;
	return n;
}

static void copy_value(const char *from, char to[METRICS_VALUE_MAX + 1])
{
	for (size_t i = 0; i < METRICS_VALUE_MAX && from[i]; i++)
		to[i] = (unsigned char)from[i] < 0x80 ? from[i] : '?';
}

static void make_key(enum metric id, const char *const *labels, struct series *ret)
{
	size_t n = count_labels(&definitions[id]);

	*ret = (struct series){ .id = id };
	for (size_t i = 0; labels && i < n; i++) {
		if (labels[i])
			copy_value(labels[i], ret->values[i]);
	}
}

/* FNV-1a. */
static size_t hash(const struct series *key)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)key->id;

	for (size_t i = 0; i < LABELS_MAX; i++) {
		for (const char *p = key->values[i];; p++) {
			h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
			if (!*p)
				break;
		}
	}
	return (size_t)(h ^ h >> 32);
}

static bool is_same(const struct series *a, const struct series *b)
{
	return a->id == b->id && memcmp(a->values, b->values, sizeof(a->values)) == 0;
}

static struct series *add_series(struct metrics *m, struct series **slot, const struct series *key)
{
	struct series *s = xnew(struct series);

	*s = *key;
	*slot = s;
	*m->last[s->id] = s;
	m->last[s->id] = &s->next;
	m->n_series++;
	return s;
}

/* NULL when there is no room for one more. */
static struct series *find_or_add(struct metrics *m, enum metric id, const char *const *labels)
{
	struct series key;

	make_key(id, labels, &key);
	for (size_t i = hash(&key) % SLOTS;; i = (i + 1) % SLOTS) {
		if (m->slots[i] && is_same(m->slots[i], &key))
			return m->slots[i];
		if (m->slots[i])
			continue;
		if (m->n_series < METRICS_SERIES_MAX)
			return add_series(m, &m->slots[i], &key);
		m->first[METRIC_DROPPED]->value++;
		return NULL;
	}
}

struct metrics *metrics_new(void)
{
	struct metrics *m = xnew(struct metrics);

	for (enum metric id = 0; id < METRIC_COUNT; id++)
		m->last[id] = &m->first[id];
	for (enum metric id = 0; id < METRIC_COUNT; id++) {
		if (!definitions[id].labels[0])
			(void)find_or_add(m, id, NULL);
	}
	return m;
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		free(m->slots[i]);
	free(m);
}

void metrics_add(struct metrics *m, enum metric id, const char *const *labels, double delta)
{
	struct series *s = find_or_add(m, id, labels);

	assert(definitions[id].type != HISTOGRAM && isfinite(delta));
	assert(definitions[id].type == GAUGE || delta >= 0);
	if (s)
		s->value += delta;
}

void metrics_set(struct metrics *m, enum metric id, const char *const *labels, double value)
{
	struct series *s = find_or_add(m, id, labels);

	assert(definitions[id].type == GAUGE && isfinite(value));
	if (s)
		s->value = value;
}

void metrics_observe(struct metrics *m, enum metric id, const char *const *labels, double value)
{
	const double *bounds = definitions[id].buckets;
	struct series *s = find_or_add(m, id, labels);
	size_t i = 0;

	assert(definitions[id].type == HISTOGRAM && isfinite(value));
	if (!s)
		return;
	/* A clock that was set back makes durations negative. */
	if (value < 0)
		value = 0;
	while (bounds[i] > 0 && value > bounds[i])
		i++;
	if (bounds[i] > 0)
		s->buckets[i]++;
	s->value += value;
	s->count++;
}

static void print_escaped(FILE *out, const char *text)
{
	static const char special[] = "\\\"\n";
	static const char letters[] = "\\\"n";

	for (; *text; text++) {
		const char *at = strchr(special, *text);

		if (at)
			(void)fputc('\\', out);
		(void)fputc(at ? letters[at - special] : *text, out);
	}
}

/* {runtime="native",le="0.5"}; `le` may be NULL. */
static void print_labels(FILE *out, const struct series *s, const char *le)
{
	const struct definition *d = &definitions[s->id];
	const char *before = "{";

	for (size_t i = 0; d->labels[i]; i++) {
		(void)fprintf(out, "%s%s=\"", before, d->labels[i]);
		print_escaped(out, s->values[i]);
		(void)fputc('"', out);
		before = ",";
	}
	if (le)
		(void)fprintf(out, "%sle=\"%s\"", before, le);
	if (d->labels[0] || le)
		(void)fputc('}', out);
}

/* With as many digits as it takes to be the same number again. */
static void print_value(FILE *out, double value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		(void)snprintf(text, sizeof(text), "%.17g", value);
	(void)fprintf(out, " %s\n", text);
}

static void print_bucket(FILE *out, const struct series *s, const char *le, uint64_t count)
{
	(void)fprintf(out, "%s_bucket", definitions[s->id].name);
	print_labels(out, s, le);
	(void)fprintf(out, " %" PRIu64 "\n", count);
}

static void print_histogram(FILE *out, const struct series *s)
{
	const struct definition *d = &definitions[s->id];
	uint64_t count = 0;

	for (size_t i = 0; d->buckets[i] > 0; i++) {
		char le[32];

		(void)snprintf(le, sizeof(le), "%g", d->buckets[i]);
		count += s->buckets[i];
		print_bucket(out, s, le, count);
	}
	print_bucket(out, s, "+Inf", s->count);
	(void)fprintf(out, "%s_sum", d->name);
	print_labels(out, s, NULL);
	print_value(out, s->value);
	(void)fprintf(out, "%s_count", d->name);
	print_labels(out, s, NULL);
	(void)fprintf(out, " %" PRIu64 "\n", s->count);
}

static void print_single(FILE *out, const struct series *s)
{
	(void)fputs(definitions[s->id].name, out);
	print_labels(out, s, NULL);
	print_value(out, s->value);
}

char *metrics_text(const struct metrics *m)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	for (enum metric id = 0; id < METRIC_COUNT; id++) {
		const struct definition *d = &definitions[id];

		(void)fprintf(out, "# HELP %s %s\n", d->name, d->help);
		(void)fprintf(out, "# TYPE %s %s\n", d->name, type_names[d->type]);
		for (const struct series *s = m->first[id]; s; s = s->next)
			(d->type == HISTOGRAM ? print_histogram : print_single)(out, s);
	}
	/* It writes to memory: this fails when there is none. */
	if (fclose(out) != 0)
		abort();
	return text;
}

/* A whole number as one: 128, not 128.0. */
static json_t *number(double value)
{
	const double exact_max = 9007199254740992.0; /* 2^53 */

	if (fabs(value) <= exact_max && value == floor(value))
		return json_integer((json_int_t)value);
	return json_real(value);
}

static json_t *describe(const struct series *s, double value)
{
	const struct definition *d = &definitions[s->id];
	json_t *labels = json_object();

	for (size_t i = 0; d->labels[i]; i++)
		(void)json_object_set_new(labels, d->labels[i], json_string(s->values[i]));
	return json_pack("{s:o,s:o}", "labels", labels, "value", number(value));
}

static double value_of(const struct series *s)
{
	return s->value;
}

static double count_of(const struct series *s)
{
	return (double)s->count;
}

static void add_list(json_t *all, const struct metrics *m, enum metric id, const char *suffix,
	double (*get)(const struct series *s))
{
	json_t *list = json_array();
	char name[64];

	for (const struct series *s = m->first[id]; s; s = s->next)
		(void)json_array_append_new(list, describe(s, get(s)));
	(void)snprintf(name, sizeof(name), "%s%s", definitions[id].name, suffix);
	(void)json_object_set_new(all, name, list);
}

json_t *metrics_json(const struct metrics *m)
{
	json_t *all = json_object();

	for (enum metric id = 0; id < METRIC_COUNT; id++) {
		bool is_histogram = definitions[id].type == HISTOGRAM;

		add_list(all, m, id, is_histogram ? "_sum" : "", value_of);
		if (is_histogram)
			add_list(all, m, id, "_count", count_of);
	}
	return all;
}
