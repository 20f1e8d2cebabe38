/* Runs that wait for the files of their session: in their places in the queue, but in nobody's
 * way. */
#include "base/clock.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"

bool run_awaits_files(const struct run *run)
{
	return run->session && session_is_mending(run->session);
}

void run_park(struct run *run)
{
	uint64_t since_ns = run->waiting.since_ns; /* if it waited before */

	queue_park(&run->service->queue, &run->waiting, run->row.user_id,
		since_ns ? since_ns : clock_monotonic_ns());
}

void run_give_way(struct run *run)
{
	struct service *s = run->service;

	queue_end(&s->queue, run->row.user_id);
	run->holds_slot = false;
	run_park(run);
	service_dispatch(s);
}

void run_files_are_back(const struct session *session)
{
	struct service *s = session->service;

	for (struct run *run = s->runs; run; run = run->next) {
		if (run->session == session)
			queue_wake(&run->waiting);
	}
	service_dispatch(s);
}
