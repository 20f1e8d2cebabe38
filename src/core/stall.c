#include "core/stall.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/date.h"
#include "core/metrics.h"

#define NS_PER_MS UINT64_C(1000000)

void stall_begin(struct stall *s, struct metrics *m, uint64_t since_ns)
{
	s->since_ns = since_ns;
	metrics_add(m, METRIC_STALLS, METRICS_LABELS(s->loop), 1);
	stall_count(s, m);
}

void stall_end(struct stall *s, struct metrics *m, uint64_t ms, const char *step)
{
	if (!s->since_ns)
		metrics_add(m, METRIC_STALLS, METRICS_LABELS(s->loop), 1);
	s->since_ns = 0;
	s->last_ms = ms;
	s->ended_ns = clock_realtime_ns();
	(void)snprintf(s->step, sizeof(s->step), "%s", step);
	metrics_add(m, METRIC_STALL_SECONDS, METRICS_LABELS(s->loop), (double)ms / 1e3);
	stall_count(s, m);
}

static double age(const struct stall *s)
{
	return s->since_ns ? (double)(clock_monotonic_ns() - s->since_ns) / 1e9 : 0;
}

void stall_count(const struct stall *s, struct metrics *m)
{
	metrics_set(m, METRIC_STALLED, METRICS_LABELS(s->loop), age(s));
}

static json_t *date_json(uint64_t ns)
{
	char text[DATE_SIZE + 1];

	date_format(ns, text);
	return json_string(text);
}

static json_t *now_json(const struct stall *s)
{
	if (!s->since_ns)
		return json_null();
	uint64_t since = clock_realtime_ns() - (clock_monotonic_ns() - s->since_ns);
	return json_pack("{s:o,s:f}", "since", date_json(since), "seconds", age(s));
}

static json_t *last_json(const struct stall *s)
{
	if (!s->last_ms)
		return json_null();
	return json_pack("{s:o,s:f,s:s}", "until", date_json(s->ended_ns), "seconds",
		(double)s->last_ms / 1e3, "step", s->step);
}

json_t *stall_json(const struct stall *s)
{
	return json_pack("{s:o,s:o}", "stall", now_json(s), "last_stall", last_json(s));
}
