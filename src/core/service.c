/* The service as a whole: opening it, giving turns, watching the clock, coming back after a
 * restart, and ending.
 *
 * Coming back. The store says which runs are not over and which sessions there are; the
 * runtime says which of them it still holds. Nothing is accepted before both have answered:
 * readiness waits for it. */
#include "core/service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/doing.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/claim.h"
#include "core/errand.h"
#include "core/feeder.h"
#include "core/journal.h"
#include "core/kernel.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/replay.h"
#include "core/repository.h"
#include "core/run.h"
#include "core/run_dir.h"
#include "core/session.h"
#include "core/users.h"
#include "store/record.h"

#define NS_PER_SEC UINT64_C(1000000000)

static void recover(struct service *s);

char *service_path(const struct service *s, const char *relative)
{
	size_t size = strlen(s->data_dir) + strlen(relative) + 2;
	char *path = xcalloc(1, size);

	(void)snprintf(path, size, "%s/%s", s->data_dir, relative);
	return path;
}

int service_check_space(const struct service *s, struct problem *problem)
{
	uint64_t least = s->settings->min_free_mb << 20;
	struct statvfs fs;

	if (least == 0 || fstatvfs(s->data_fd, &fs) < 0 ||
		(uint64_t)fs.f_bavail * fs.f_frsize >= least)
		return 0;
	return problem_set(problem, "insufficient_storage",
		"less than %llu MB are free on the disk of the server",
		(unsigned long long)s->settings->min_free_mb);
}

/* --- turns --- */

bool service_starts_runs(const struct service *s)
{
	return s->is_up && !s->is_draining && s->settings->enable_execution;
}

int service_check_keeper(const struct service *s, struct problem *problem)
{
	uint64_t since = s->keeper_stall.since_ns;
	uint64_t now = clock_monotonic_ns();

	if (s->is_up || !since || now - since < RUNTIME_LOST_NS)
		return 0;
	return problem_set(problem, "runtime_unavailable",
		"the keeper has not answered for %llu s; look whether its process is stopped",
		(unsigned long long)((now - since) / NS_PER_SEC));
}

/* Each has one turn: who can not begin waits again. Whoever ends at once makes room for another,
 * who is found here as well. */
void service_dispatch(struct service *s)
{
	struct queue_entry *e;

	if (s->is_dispatching)
		return;
	s->is_dispatching = true;
	for (size_t n = s->queue.n_waiting; n > 0 && service_starts_runs(s); n--) {
		e = queue_pop(&s->queue);
		if (!e)
			break;
		run_take_turn((struct run *)((char *)e - offsetof(struct run, waiting)));
	}
	s->is_dispatching = false;
}

static void expire_waiting(struct service *s, uint64_t now_ns)
{
	uint64_t ttl = s->settings->queue_ttl_sec;
	struct queue_entry *e;

	if (!s->settings->enable_execution)
		return; /* nobody is to have a turn */
	while (ttl > 0 && (e = queue_oldest(&s->queue)) && e->since_ns + ttl * NS_PER_SEC <= now_ns)
		run_expire((struct run *)((char *)e - offsetof(struct run, waiting)));
}

static void count_phases(struct service *s)
{
	size_t n[PHASE_COUNT] = { 0 };

	for (const struct run *r = s->runs; r; r = r->next)
		n[r->phase]++;
	for (int p = PHASE_QUEUED; p <= PHASE_RUNNING; p++)
		metrics_set(s->metrics, METRIC_RUNS, METRICS_LABELS(phase_name((enum phase)p)),
			(double)n[p]);
}

static void finish_drain(struct service *s)
{
	void (*done)(void *ctx) = TAKE(s->drained);

	if (done)
		done(s->drained_ctx);
}

/* Those that wait, for their turn or for an approval, are the next server's. */
static bool is_idle(const struct service *s)
{
	for (const struct run *r = s->runs; r; r = r->next) {
		if (r->job || r->has_result || r->n_work > 0)
			return false;
	}
	return s->n_pending == 0;
}

static void check_drain(struct service *s, uint64_t now_ns)
{
	if (s->drained && (now_ns >= s->drain_until_ns || is_idle(s)))
		finish_drain(s);
}

static void on_swept(void *ctx, int r, json_t *counts)
{
	(void)ctx;
	if (r < 0)
		log_warn("sweep: %s", strerror(-r));
	json_decref(counts);
}

static void on_tick(uv_timer_t *timer)
{
	struct service *s = timer->data;
	uint64_t now_ns = clock_monotonic_ns();
	const char *before = doing_begin("the service's clock");

	for (struct run *r = s->runs, *next; r; r = next) {
		next = r->next;
		run_input_tick(r, now_ns);
		run_start_tick(r, now_ns);
	}
	expire_waiting(s, now_ns);
	if (s->is_recovered && !s->is_draining)
		session_expire(s, (uint64_t)time(NULL));
	count_phases(s);
	stall_count(&s->keeper_stall, s->metrics);
	if (s->next_recovery_ns && now_ns >= s->next_recovery_ns)
		recover(s);
	check_drain(s, now_ns);
	if (s->is_recovered && now_ns >= s->next_sweep_ns) {
		s->next_sweep_ns = now_ns + s->settings->gc_interval_sec * NS_PER_SEC;
		service_sweep(s, on_swept, NULL);
	}
	doing_end(before);
}

/* --- the runtime comes and goes --- */

static void on_up(void *ctx, const char (*runs)[RUN_ID_SIZE + 1], size_t n_runs,
	const char (*workspaces)[WORKSPACE_ID_SIZE + 1], size_t n_workspaces)
{
	struct service *s = ctx;

	log_info("connected to keeper %s; resuming %zu runs and %zu workspaces",
		s->runtime->instance(s->host), n_runs, n_workspaces);
	s->is_up = true;
	session_match(s, workspaces, n_workspaces);
	run_match(s, runs, n_runs);
	s->is_recovered = true;
	service_dispatch(s);
}

static void on_down(void *ctx)
{
	struct service *s = ctx;

	log_warn("the keeper can not be reached");
	s->is_up = false;
}

static void on_silent(void *ctx, uint64_t since_ns)
{
	struct service *s = ctx;

	stall_begin(&s->keeper_stall, s->metrics, since_ns);
}

static void on_heard(void *ctx, uint64_t ms, const char *step)
{
	struct service *s = ctx;

	stall_end(&s->keeper_stall, s->metrics, ms, step);
}

/* A keeper counts from its own start, and it may be another one than before. */
static double growth(uint64_t before, uint64_t now)
{
	return (double)(now < before ? now : now - before);
}

static void count_stock(struct service *s, const char *image, const char *language,
	const struct warm_stock *before, const struct warm_stock *now)
{
	const char *const labels[] = { image, language };

	metrics_set(s->metrics, METRIC_WARM_BOXES, METRICS_LABELS(image, language, "waiting"),
		(double)now->waiting);
	metrics_set(s->metrics, METRIC_WARM_BOXES, METRICS_LABELS(image, language, "making"),
		(double)now->making);
	metrics_add(s->metrics, METRIC_WARM_HITS, labels, growth(before->hits, now->hits));
	metrics_add(s->metrics, METRIC_WARM_MISSES, labels, growth(before->misses, now->misses));
	metrics_add(s->metrics, METRIC_WARM_REFILLS, labels, growth(before->made, now->made));
	metrics_add(s->metrics, METRIC_WARM_SECONDS, labels,
		growth(before->made_us, now->made_us) / 1e6);
}

static void on_warmth(void *ctx, const struct warm_state *state)
{
	struct service *s = ctx;

	/* Digests of images are many; series are to be few. */
	count_stock(s, "host", "none", &s->warmth.boxes, &state->boxes);
	count_stock(s, "imported", "none", &s->warmth.imported, &state->imported);
	count_stock(s, "host", "python", &s->warmth.clones, &state->clones);
	s->warmth = *state;
}

static void open_runtime(struct service *s)
{
	const struct settings *c = s->settings;
	struct runtime_options options = {
		.root = s->root,
		.warm = { .warmth = c->warm, .memory_bytes = c->warm_memory_mb << 20 },
	};
	struct runtime_listener listener = {
		.up = on_up,
		.down = on_down,
		.silent = on_silent,
		.heard = on_heard,
		.warmth = on_warmth,
		.ctx = s,
	};
	struct err err = { 0 };

	(void)snprintf(options.warm.imports, sizeof(options.warm.imports), "%s",
		c->warm_imports ? c->warm_imports : "");
	if (s->runtime->open(s->loop, &options, &listener, &s->host, &err) < 0)
		(void)log_error(err.code, "cannot open the runtime: %s", err.text);
}

/* --- what the store has from before --- */

/* Without knowing all of it, what the keeper holds would be taken for nobody's. */
static void recover_later(struct service *s, int r)
{
	(void)log_error(r, "cannot read what there was before, trying again: %s", strerror(-r));
	s->next_recovery_ns = clock_monotonic_ns() + NS_PER_SEC;
}

static void on_runs(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct service *s = ctx;
	const struct run_row *all = rows;

	(void)total;
	s->n_pending--;
	if (s->is_closing)
		return;
	if (r < 0) {
		while (s->sessions)
			session_free(s->sessions);
		recover_later(s, r);
		return;
	}
	for (size_t i = 0; i < n; i++)
		run_recover(s, &all[i]);
	run_dir_clear(s);
	repository_clear(s);
	/* Only now: what it holds is compared with what the store said. */
	open_runtime(s);
}

static void on_sessions(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct service *s = ctx;
	const struct session_row *all = rows;
	/* The newest first: each goes to the front of the list, which is then in order. */
	struct query q = { .table = &run_table, .n_filters = 1, .sort = "created_ns" };

	(void)total;
	s->n_pending--;
	if (s->is_closing)
		return;
	if (r < 0) {
		recover_later(s, r);
		return;
	}
	for (size_t i = 0; i < n; i++)
		session_recover(s, &all[i]);
	q.descending = true;
	q.filters[0] = (struct filter){ .column = "phase", .op = FILTER_IN };
	q.filters[0].text = "queued,starting,running";
	s->n_pending++;
	store_list(s->store, &q, on_runs, s);
}

static void on_replayed(struct service *s, int r)
{
	struct query q = { .table = &session_table };

	if (r < 0) {
		recover_later(s, r);
		return;
	}
	/* With full durability nothing is said before the store has it. */
	if (s->settings->store_sync_full)
		journal_free(TAKE(s->journal));
	s->n_pending++;
	store_list(s->store, &q, on_sessions, s);
}

static void recover(struct service *s)
{
	s->next_recovery_ns = 0;
	replay_start(s, on_replayed);
}

/* --- opening and closing --- */

static int open_data(struct service *s, const char *dir, struct err *err)
{
	static const char *const dirs[] = { "meta", "tmp", "audit" };
	int r = path_make_dirs(dir, 0700, err);

	if (r < 0)
		return r;
	s->data_dir = xstrdup(dir);
	s->data_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->data_fd < 0)
		return err_errno(err, "open %s", dir);
	/* Two would end each other's runs. The store has a lock too, but may be elsewhere. */
	if (flock(s->data_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? err_set(err, -EBUSY, "%s is in use by another server", dir)
			       : err_errno(err, "lock %s", dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdirat(s->data_fd, dirs[i], 0700) < 0 && errno != EEXIST)
			return err_errno(err, "make %s/%s", dir, dirs[i]);
	}
	return 0;
}

/* What a predecessor was in the middle of when it was killed: repositories half cloned. */
static int clear_tmp(struct service *s, struct err *err)
{
	int r = fd_remove_tree(s->data_fd, "tmp");

	if (r == 0 && mkdirat(s->data_fd, "tmp", 0700) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "clear %s/tmp: %s", s->data_dir, strerror(-r)) : 0;
}

static int open_store(struct service *s, const char *instead, struct err *err)
{
	const struct settings *c = s->settings;
	AUTO_FREE char *standard = service_path(s, "meta/sandbox_store.db");
	char url[4200];

	(void)snprintf(url, sizeof(url), "%s%s",
		c->store == STORE_KIND_MEMORY ? "memory:" : "sqlite:",
		c->store == STORE_KIND_MEMORY ? "" : (c->store_path ? c->store_path : standard));
	return store_open(s->loop, instead ? instead : url, c->store_sync_full, &s->store, err);
}

/* What is kept in memory alone is not to be found on a disk. */
static int open_journal(struct service *s, struct err *err)
{
	bool is_volatile = s->settings->store == STORE_KIND_MEMORY;

	return is_volatile ? 0 : journal_open(s->data_fd, &s->journal, err);
}

static int open_audit(struct service *s, struct err *err)
{
	const struct settings *c = s->settings;
	AUTO_FREE char *standard = service_path(s, "audit/audit.jsonl");
	struct audit_options options = {
		.path = c->audit_file ? c->audit_file : standard,
		.max_bytes = c->audit_max_mb << 20,
		.keep_days = c->audit_days,
	};

	return audit_open(&options, &s->audit, err);
}

/* Where there are others, one user's long runs leave a place for theirs. */
static size_t active_per_user(const struct settings *c)
{
	AUTO_FREE char *users = users_default_path(c->root ? c->root : "");
	bool has_users = c->auth_mode != AUTH_MODE_KEY || access(users, F_OK) == 0;
	bool is_shared = has_users && c->max_concurrent_runs > 1;

	return c->active_max_per_user || !is_shared ? c->active_max_per_user
						    : c->max_concurrent_runs - 1;
}

int service_open(const struct service_options *options, struct service **ret, struct err *err)
{
	struct service *s = xnew(struct service);
	const struct settings *c = options->settings;

	s->loop = options->loop;
	s->settings = c;
	s->data_fd = -1;
	s->root = xstrdup(options->root);
	s->runtime = options->runtime ? options->runtime : &runtime_native;
	s->metrics = metrics_new();
	s->server_stall.loop = "server";
	s->keeper_stall.loop = "keeper";
	settings_policy_hash(c, s->policy_hash);
	queue_init(&s->queue, c->max_concurrent_runs, active_per_user(c));
	(void)uv_timer_init(s->loop, &s->tick);
	s->tick.data = s;
	int r = open_data(s, options->data_dir, err);
	if (r == 0)
		r = clear_tmp(s, err);
	if (r == 0)
		r = open_store(s, options->store, err);
	if (r == 0)
		r = open_journal(s, err);
	if (r == 0)
		r = open_audit(s, err);
	if (r < 0) {
		service_close(s);
		return r;
	}
	s->next_sweep_ns = clock_monotonic_ns() + NS_PER_SEC;
	(void)uv_timer_start(&s->tick, on_tick, 1000, 1000);
	recover(s);
	*ret = s;
	return 0;
}

void service_drain(struct service *s, void (*done)(void *ctx), void *ctx)
{
	s->is_draining = true;
	atomic_store(&s->stops_clones, true);
	s->drained = done;
	s->drained_ctx = ctx;
	s->drain_until_ns = clock_monotonic_ns() + s->settings->drain_sec * NS_PER_SEC;
	kernel_drain(s);
	/* Looked at more often from now on: somebody waits at a terminal. */
	(void)uv_timer_start(&s->tick, on_tick, 1, 20);
}

static void on_tick_closed(uv_handle_t *handle)
{
	struct service *s = handle->data;

	free(s->root);
	free(s->data_dir);
	close_fdp(&s->data_fd);
	free(s);
}

/* First the threads and the store, which call back whoever still waits for them; those find
 * everything else where it was, and see that it ends. */
static void end_work(struct service *s)
{
	s->is_draining = s->is_closing = true;
	atomic_store(&s->stops_clones, true);
	s->is_up = false;
	feeder_finish_all(s->loop);
	for (struct session *i = s->sessions, *next; i; i = next) {
		next = i->next;
		kernel_forget(i);
		errand_forget_all(i);
	}
	store_free(s->store);
	feeder_finish_all(s->loop);
	s->store = NULL;
}

void service_close(struct service *s)
{
	if (!s)
		return;
	(void)uv_timer_stop(&s->tick);
	end_work(s);
	if (s->host)
		s->runtime->close(TAKE(s->host));
	while (s->runs)
		run_free(s->runs);
	while (s->sessions)
		session_free(s->sessions);
	free(s->past);
	run_dir_fini(s);
	journal_free(s->journal);
	claim_free_all(s);
	queue_fini(&s->queue);
	metrics_free(s->metrics);
	audit_free(s->audit);
	if (s->data_fd >= 0)
		(void)flock(s->data_fd, LOCK_UN); /* a successor need not wait for the loop */
	uv_close((uv_handle_t *)&s->tick, on_tick_closed);
}
