/* Runs that a predecessor of ours did not bring to their end: as the store has them, and then,
 * when the runtime is up, as that knows them. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/approval.h"
#include "core/kernel.h"
#include "core/problem.h"
#include "core/quota.h"
#include "core/run_dir.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"

int run_read_request(
	const struct run *run, struct request *ret, char **ret_keeper, struct problem *problem)
{
	AUTO_JSON *whole = run->row.request ? json_loads(run->row.request, 0, NULL) : NULL;
	const char *keeper = json_string_value(json_object_get(whole, "keeper"));

	if (ret_keeper)
		*ret_keeper = keeper ? xstrdup(keeper) : NULL;
	return request_parse(json_object_get(whole, "body"), REQUEST_RUN, ret, problem);
}

int run_parse_stored(struct run *run, char **ret_keeper)
{
	struct problem problem = { 0 };
	int r = run_read_request(run, &run->request, ret_keeper, &problem);

	if (r == 0)
		r = run_decide(run, &problem);
	if (r == 0)
		r = request_decode_files(
			&run->request, UINT64_MAX, &run->files, &run->n_files, &problem);
	if (r < 0)
		log_warn("run %s can not be executed any more: %s", run->row.id, problem.message);
	problem_fini(&problem);
	return r;
}

/* What a predecessor left of its output can not be read: it begins anew, and says so. Without
 * files nobody would read what the guest prints, and it would wait for ever. */
static int begin_anew(struct run *run)
{
	static const char *const names[] = { "stdout", "stderr", "events", "index" };

	for (size_t i = 0; i < ARRAY_SIZE(names) && run->dir_fd >= 0; i++)
		(void)unlinkat(run->dir_fd, names[i], 0);
	close_fdp(&run->dir_fd);
	int r = run_open_files(run, false);
	if (r == 0)
		(void)stream_event(run->stream, "output_lost", "{\"reason\":\"damaged\"}");
	return r;
}

/* An interpreter of a session's does not outlive the server that talked to it. */
static bool is_kernels(const struct run *run)
{
	return run->row.source && streq(run->row.source, KERNEL_SOURCE);
}

void run_recover(struct service *s, const struct run_row *row)
{
	struct run *run = run_new(s);

	row_copy(&run_table, &run->row, row);
	run->known_cpu_us = run->counted_cpu_us = row->cpu_us == STORE_NULL ? 0 : row->cpu_us;
	if (phase_find(row->phase, &run->phase) < 0)
		run->phase = PHASE_STARTING;
	/* How far it got is the keeper's to say. */
	if (run->phase == PHASE_RUNNING)
		run->phase = PHASE_STARTING;
	if (row->session_id)
		run->session = session_find(s, row->session_id, NULL);
	run_list(run);
	(void)run_dir_keep(s, row->user_id, row->id); /* one died before it did that */
	if (run_open_files(run, false) < 0 && begin_anew(run) < 0)
		log_warn("run %s lost its files", run->row.id);
}

static bool is_among(const char *id, const char (*ids)[RUN_ID_SIZE + 1], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (streq(ids[i], id))
			return true;
	}
	return false;
}

/* One who printed too much is ended, if a predecessor did not live to see to that. */
static void keep_cap(struct run *run)
{
	stream_set_cap(run->stream, run_log_cap(run));
	if (stream_was_truncated(run->stream))
		run_on_capped(run);
}

/* The keeper knows it: whatever the store says, it was started. */
static void adopt(struct run *run, const char *hex)
{
	struct service *s = run->service;

	if (!run->request.body && run_parse_stored(run, NULL) < 0)
		request_fini(&run->request);
	run->is_adopted = true;
	queue_remove(&s->queue, &run->waiting);
	if (!run->holds_slot)
		queue_begin(&s->queue, run->row.user_id);
	run->holds_slot = true;
	if (run->phase == PHASE_QUEUED)
		run_move(run, PHASE_STARTING);
	if (s->runtime->adopt(s->host, hex, &run_job_events, run, &run->job) < 0)
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL, "the keeper is gone");
	else if (run->stream)
		keep_cap(run);
	if (!is_kernels(run))
		quota_reserve_cpu(run);
	else
		(void)run_cancel(run); /* nobody knows any more what was said to it */
}

/* The keeper does not know it. It never began if it waited, or if the keeper is still the
 * one that was asked, since that keeps every run until we have acknowledged its end. */
static void rescue(struct run *run)
{
	AUTO_FREE char *keeper = NULL;
	const char *current = run->service->runtime->instance(run->service->host);

	/* One of our own, not of a predecessor's: it waits, for its turn to be stored, or for an
	 * approval. */
	if (run->request.body || run->waiting.user)
		return;
	int r = run_parse_stored(run, &keeper);
	if (run_end_as_told(run))
		return;
	if (r < 0) {
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL, "what to execute is lost");
		return;
	}
	if (is_kernels(run)) {
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL,
			"the server that talked to it is gone");
		return;
	}
	bool never_began = run->phase == PHASE_QUEUED || (keeper && streq(keeper, current));
	if (!never_began) {
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL,
			"the keeper that executed it is gone, and the run with it");
		return;
	}
	if (run->phase == PHASE_STARTING)
		run_move(run, PHASE_QUEUED);
	quota_reserve_cpu(run);
	if (run->row.approval && streq(run->row.approval, "required")) {
		run->brief = approval_brief(run);
		queue_hold(&run->service->queue, &run->waiting, run->row.user_id);
	} else {
		queue_push(&run->service->queue, &run->waiting, run->row.user_id,
			clock_monotonic_ns());
	}
	run_shed(run);
}

/* One that we gave up goes on there: with a connection that broke, but not its keeper. */
static bool is_wanted(struct service *s, const char *hex)
{
	char id[UUID_SIZE + 1];

	uuid_from_hex(hex, id);
	const struct run *run = run_find(s, id, NULL);
	return run && run->job;
}

/* Each of them may end and be freed on the way. */
void run_match(struct service *s, const char (*ids)[RUN_ID_SIZE + 1], size_t n)
{
	for (struct run *run = s->runs, *next; run; run = next) {
		char hex[RUN_ID_SIZE + 1];

		next = run->next;
		if (run->job || run->has_result)
			continue;
		uuid_to_hex(run->row.id, hex);
		if (is_among(hex, ids, n))
			adopt(run, hex);
		else
			rescue(run);
	}
	for (size_t i = 0; i < n; i++) {
		if (!is_wanted(s, ids[i]))
			s->runtime->discard(s->host, ids[i]);
	}
}
