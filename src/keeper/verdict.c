/* The one truthful reason why a run ended, from everything that is known about
 * it: what init reported, what the cgroup counted, and what we did ourselves. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "box/cgroup.h"
#include "keeper/keeper_private.h"

static void say(struct ward *r, enum reason reason, const char *text)
{
	r->result.reason = reason;
	/* A message that is there already says something more special. */
	if (!r->result.message[0])
		(void)snprintf(r->result.message, sizeof(r->result.message), "%s", text);
}

/* What shells say of a program that may not be executed. */
#define STATUS_NOT_EXECUTABLE 126

static void say_exit(struct ward *r, int status)
{
	char text[192];
	bool is_refused = status == STATUS_NOT_EXECUTABLE && !r->exec;

	(void)snprintf(text, sizeof(text), "exited with status %d%s%s", status,
		is_refused ? ", cannot execute: " : "", is_refused ? SPEC_NOEXEC_HINT : "");
	say(r, REASON_NONZERO_EXIT, text);
}

static void say_status(struct ward *r, const struct cgroup_stats *stats)
{
	char text[128];
	bool hit_pids = stats->pids_max_hits != USAGE_UNKNOWN && stats->pids_max_hits > 0;

	if (WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0) {
		say(r, REASON_EXIT_CODE_0, "exited with status 0");
		return;
	}
	if (hit_pids) {
		(void)snprintf(text, sizeof(text), "could not have more than %llu processes",
			(unsigned long long)r->limits.pids);
		say(r, REASON_PIDS_LIMIT_EXCEEDED, text);
	} else if (WIFEXITED(r->status)) {
		say_exit(r, WEXITSTATUS(r->status));
	} else {
		(void)snprintf(text, sizeof(text), "ended by signal %d (%s)", WTERMSIG(r->status),
			strsignal(WTERMSIG(r->status)));
		say(r, REASON_SIGNALED, text);
	}
}

/* What a box holds goes with it. */
static void say_oom(struct ward *r)
{
	char text[128];
	bool is_lost = r->owes_files && r->started_mono_ns;

	(void)snprintf(text, sizeof(text), "used more than %llu bytes of memory%s",
		(unsigned long long)r->limits.memory_bytes,
		is_lost ? "; the files to capture went with it" : "");
	say(r, REASON_OOM_KILLED, text);
}

static void say_timeout(struct ward *r, enum reason reason, const char *what, uint64_t ms)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%s took longer than %llu.%03llu s", what,
		(unsigned long long)(ms / 1000), (unsigned long long)(ms % 1000));
	say(r, reason, text);
}

/* True when the guest came to its own end, just before ours reached it. */
static bool ended_by_itself(const struct ward *r)
{
	return r->has_status && WIFEXITED(r->status);
}

static void decide(struct ward *r, const struct cgroup_stats *stats)
{
	bool oom = stats->oom_kills != USAGE_UNKNOWN && stats->oom_kills > 0;

	if (r->has_failed)
		return; /* init said why */
	if (r->cause == CAUSE_OOM || (oom && r->cause == CAUSE_NONE))
		say_oom(r);
	else if (r->cause == CAUSE_STARTUP_TIMEOUT)
		say_timeout(r, REASON_STARTUP_TIMEOUT, "starting", r->limits.startup_ms);
	else if (r->cause == CAUSE_TIMEOUT && !ended_by_itself(r))
		say_timeout(r, REASON_EXECUTION_TIMEOUT, "running", r->limits.timeout_ms);
	else if (r->cause == CAUSE_CANCEL)
		say(r, REASON_CANCELED_BY_USER, "canceled");
	else if (r->cause == CAUSE_CLIENT_GONE)
		say(r, REASON_CANCELED_BY_USER, "the client that started it is gone");
	else if (r->has_status)
		say_status(r, stats);
	else
		say(r, REASON_INFRASTRUCTURE_ERROR, "the init process of the box died");
}

static void known(uint64_t *value, uint64_t better)
{
	if (better != USAGE_UNKNOWN)
		*value = better;
}

void verdict_decide(struct ward *r, const struct cgroup_stats *stats)
{
	struct usage *u = &r->result.usage;

	known(&u->cpu_us, stats->cpu_us);
	known(&u->peak_bytes, stats->peak_bytes);
	known(&u->pids, r->sampled_processes);
	if (stats->pids_peak != USAGE_UNKNOWN && stats->pids_peak > 0)
		u->pids = stats->pids_peak - 1; /* init is not the guest's */
	if (r->started_mono_ns)
		u->wall_us = (r->ended_mono_ns - r->started_mono_ns) / 1000;
	if (r->has_status && WIFEXITED(r->status))
		r->result.exit_code = WEXITSTATUS(r->status);
	if (r->has_status && WIFSIGNALED(r->status))
		r->result.signal = WTERMSIG(r->status);
	decide(r, stats);
}

void verdict_reach(struct ward *r)
{
	struct cgroup_stats stats = {
		.cpu_us = USAGE_UNKNOWN,
		.peak_bytes = USAGE_UNKNOWN,
		.oom_kills = USAGE_UNKNOWN,
		.pids_peak = USAGE_UNKNOWN,
		.pids_max_hits = USAGE_UNKNOWN,
	};

	if (r->boxed)
		cgroup_read_stats(r->boxed->cgroup, &stats);
	verdict_decide(r, &stats);
}
