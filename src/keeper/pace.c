#include "keeper/pace.h"

#include <stddef.h>

#include "base/log.h"

#define NS_PER_MS UINT64_C(1000000)

static void note(struct pace *p, const char *step, uint64_t ns)
{
	p->n_stalls++;
	p->last_ms = ns / NS_PER_MS;
	p->last_step = step;
	log_warn("event=stall loop=keeper step='%s' ms=%llu: nobody was served meanwhile", step,
		(unsigned long long)p->last_ms);
}

void pace_step(struct pace *p, const char *step, uint64_t now_ns)
{
	if (p->step && now_ns - p->since_ns > PACE_STALL_NS)
		note(p, p->step, now_ns - p->since_ns);
	p->step = step;
	p->since_ns = now_ns;
}

void pace_sleep(struct pace *p, uint64_t now_ns)
{
	pace_step(p, NULL, now_ns);
}

void pace_wake(struct pace *p, int timeout_ms, uint64_t now_ns)
{
	uint64_t slept = now_ns - p->since_ns;

	if (timeout_ms >= 0 && slept > (uint64_t)timeout_ms * NS_PER_MS + PACE_STALL_NS)
		note(p, "sleeping: the process was stopped, or got no processor", slept);
	p->since_ns = now_ns;
}
