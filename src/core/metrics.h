/* Counters, gauges and histograms of the server, in one table of metrics with their labels
 * and help texts. On the loop only. Label values come from small fixed sets; what a user
 * chooses never becomes one, so that the number of series is bounded. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/cleanup.h"

enum metric {
	METRIC_SESSIONS_CREATED,  /* sandbox_sessions_created_total{runtime} */
	METRIC_RUNS_STARTED,      /* sandbox_runs_started_total{runtime} */
	METRIC_RUNS_COMPLETED,    /* sandbox_runs_completed_total{runtime,outcome,reason} */
	METRIC_RUN_DURATION,      /* sandbox_run_duration_seconds{runtime,outcome,reason} */
	METRIC_START_LATENCY,     /* sandbox_start_latency_seconds{runtime}: accepted to running */
	METRIC_QUEUE_WAIT,        /* sandbox_queue_wait_seconds{runtime} */
	METRIC_QUEUE_FULL,        /* sandbox_queue_full_total{component,runtime,reason} */
	METRIC_QUEUE_TTL_EXPIRED, /* sandbox_queue_ttl_expired_total{component,runtime,reason} */
	METRIC_RUNS,              /* sandbox_runs{phase}: gauge of live ones */
	METRIC_SESSIONS,          /* sandbox_sessions: gauge */
	METRIC_UPLOAD_BYTES,      /* sandbox_upload_bytes_total{kind} */
	METRIC_UPLOAD_FILES,      /* sandbox_upload_files_total{kind} */
	METRIC_ARTIFACT_BYTES,    /* sandbox_artifact_bytes_total{runtime} */
	METRIC_LOG_BYTES,         /* sandbox_log_bytes_total{runtime} */
	METRIC_LOG_TRUNCATIONS,   /* sandbox_log_truncations_total{component,reason} */
	METRIC_WS_OPENED,         /* sandbox_ws_connections_opened_total{component} */
	METRIC_WS_HEARTBEATS,     /* sandbox_ws_heartbeats_sent_total{component} */
	METRIC_WS_DISCONNECTS,    /* sandbox_ws_disconnects_total{component} */
	METRIC_WS_QUEUE_DROPS,    /* sandbox_ws_queue_drops_total{component,reason} */
	METRIC_HTTP_REQUESTS,     /* sandbox_http_requests_total{method,code} */
	METRIC_HTTP_SECONDS,      /* sandbox_http_request_seconds{method} */
	METRIC_STALLS,            /* sandbox_loop_stalls_total{loop} */
	METRIC_STALL_SECONDS,     /* sandbox_loop_stall_seconds_total{loop} */
	METRIC_STALLED,           /* sandbox_loop_stalled_seconds{loop}: gauge */
	METRIC_WARM_BOXES,        /* sandbox_warm_boxes{image,language,state}: gauge */
	METRIC_WARM_HITS,         /* sandbox_warm_hits_total{image,language} */
	METRIC_WARM_MISSES,       /* sandbox_warm_misses_total{image,language} */
	METRIC_WARM_REFILLS,      /* sandbox_warm_refills_total{image,language} */
	METRIC_WARM_SECONDS,      /* sandbox_warm_refill_seconds_total{image,language} */
	METRIC_DROPPED,           /* sandbox_metrics_dropped_total: no room for one more series */
	METRIC_COUNT,
};

/* All series together; what would need one more is only counted. */
#define METRICS_SERIES_MAX 4096u

/* Characters of a label's value; the rest is cut off. What is not ASCII becomes a '?'. */
#define METRICS_VALUE_MAX 47u

struct metrics;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

/* Add to a counter, set a gauge, or put a value into a histogram. `labels` are as many values
 * as the metric has labels, in their order; NULL is for a metric without. */
void metrics_add(struct metrics *m, enum metric id, const char *const *labels, double delta);
void metrics_set(struct metrics *m, enum metric id, const char *const *labels, double value);
void metrics_observe(struct metrics *m, enum metric id, const char *const *labels, double value);

/* METRICS_LABELS("native", "completed") */
#define METRICS_LABELS(...) ((const char *const[]){ __VA_ARGS__ })

/* Prometheus' text format, version 0.0.4. A metric that was never touched has its HELP and TYPE,
 * and when it has no labels the value 0. The caller frees it. */
char *metrics_text(const struct metrics *m);

/* {"sandbox_x_total": [{"labels": {...}, "value": 1}]}; of histograms _sum and _count. */
json_t *metrics_json(const struct metrics *m);

DEFINE_CLEANUP(struct metrics, metrics_free)
