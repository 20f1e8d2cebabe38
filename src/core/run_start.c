/* Executing a run: from its turn in the queue to the word of how it ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/log.h"
#include "base/shared.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/collector.h"
#include "core/feeder.h"
#include "core/image_name.h"
#include "core/kernel.h"
#include "core/lister.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/repository.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"
#include "ipc/pack.h"
#include "ipc/pack_write.h"

#define NS_PER_SEC 1e9
#define NS_PER_MS  UINT64_C(1000000)

/* A stream of files that the kernel takes without waiting for the box, and so needs no thread. */
#define FEED_AT_ONCE (16u << 10)

/* Where programs are found, unless the request says otherwise. The last one has other names
 * for what the host calls differently: python for python3. */
#define STANDARD_PATH "PATH=/usr/local/bin:/usr/bin:/bin:/var/lib/belljar/bin"
#define STANDARD_HOME "HOME=/workspace"
#define STANDARD_LANG "LANG=C.UTF-8"

static char **texts_of(const json_t *list)
{
	size_t n = json_array_size(list);
	char **texts = xcalloc(n + 1, sizeof(*texts));

	for (size_t i = 0; i < n; i++)
		texts[i] = xstrdup(json_string_value(json_array_get(list, i)));
	return texts;
}

static char *variable(const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 2;
	char *text = xcalloc(1, size);

	(void)snprintf(text, size, "%s=%s", name, value);
	return text;
}

/* What was sent, and the usual ones that were not. */
static char **env_of(const json_t *env)
{
	static const char *const standard[] = { STANDARD_PATH, STANDARD_HOME, STANDARD_LANG };
	char **texts = xcalloc(json_object_size(env) + ARRAY_SIZE(standard) + 1, sizeof(*texts));
	const char *name;
	json_t *value;
	size_t n = 0;

	json_object_foreach((json_t *)env, name, value)
	{
		texts[n++] = variable(name, json_string_value(value));
	}
	for (size_t i = 0; i < ARRAY_SIZE(standard); i++) {
		char key[16];

		(void)snprintf(
			key, sizeof(key), "%.*s", (int)strcspn(standard[i], "="), standard[i]);
		if (!json_object_get(env, key))
			texts[n++] = xstrdup(standard[i]);
	}
	return texts;
}

bool run_takes_files(const struct run *run)
{
	return run->n_files > 0 || run->request.git;
}

static void fill_spec(const struct run *run, struct spec *spec)
{
	const struct settings *c = run->service->settings;

	spec_init(spec);
	if (run->row.id)
		uuid_to_hex(run->row.id, spec->id);
	else
		spec_make_id(spec->id);
	spec->argv = texts_of(run->request.command);
	spec->env = env_of(run->request.env);
	spec->globs = texts_of(run->request.capture_patterns);
	spec->cwd = xstrdup("/workspace");
	spec->limits = run->policy.limits;
	spec->limits.capture_bytes = c->max_artifact_run_mb << 20;
	spec->require = run->policy.require;
	spec->takes_files = run_takes_files(run);
	spec->exec = run->policy.workspace_exec;
	spec->lingers = true;
	spec->lists = run->lists;
	spec->digests = run->lists && run->digests;
	spec->talks = run->kernel != NULL;
	spec->deaf = !run->kernel && !run->request.interactive && !run->request.input;
	if (run->session)
		memcpy(spec->workspace, run->session->workspace, sizeof(spec->workspace));
}

int run_check_spec(struct run *run, struct problem *problem)
{
	struct err err = { 0 };
	struct spec spec;

	fill_spec(run, &spec);
	int r = spec_check(&spec, &err);
	spec_fini(&spec);
	if (r == 0)
		return 0;
	return problem_set(problem, "invalid_request", "%s", err.text);
}

static int choose_image(struct run *run, struct spec *spec, struct err *err)
{
	struct image_choice choice;
	int r = image_name_resolve(run->service->settings->root, run->row.base_image, &choice, err);

	if (r < 0)
		return r;
	memcpy(spec->image, choice.image, sizeof(spec->image));
	run_set_text(&run->row.resolved_image, choice.resolved);
	run_set_text(&run->row.image_digest, choice.digest[0] ? choice.digest : NULL);
	return 0;
}

/* --- what the runtime tells --- */

static int feed_files(void *ctx, int fd, struct err *err)
{
	const struct run *run = ctx;
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	struct upload_result result;
	struct upload_limits limits = {
		.max_bytes = UINT64_MAX,
		.max_files = REQUEST_FILES_MAX,
	};
	int r = run->request.git ? repository_send(run->service, run->row.id, &w, err) : 0;

	if (r == 0)
		r = upload_pack_inline(run->files, run->n_files, &limits, &w, &result, err);
	return r < 0 ? r : pack_write_end(&w, err);
}

/* A box that did not get all of its files says so itself, in its result. */
static void on_fed(void *ctx, int r, const struct err *err)
{
	struct run *run = ctx;

	if (r < 0)
		log_debug("files of run %s: %s", run->row.id, err->text);
	run->n_work--;
	run_check_over(run);
}

static bool has_few_bytes(const struct run *run)
{
	size_t size = run->request.git ? FEED_AT_ONCE + 1 : 0;

	for (size_t i = 0; i < run->n_files; i++)
		size += run->files[i].size + PACK_HEAD_SIZE + strlen(run->files[i].path);
	return size <= FEED_AT_ONCE;
}

/* Takes the descriptor. */
static void feed(struct run *run, int fd)
{
	struct err err = { 0 };

	run->is_fed = true;
	run->n_work++;
	if (!has_few_bytes(run)) {
		feeder_start(run->service->loop, fd, feed_files, on_fed, run);
		return;
	}
	int r = feed_files(run, fd, &err);
	(void)close(fd);
	on_fed(run, r, &err);
}

static void on_captured(void *ctx, int r, uint64_t n_bytes)
{
	struct run *run = ctx;

	(void)n_bytes;
	if (r < 0)
		log_warn("captured files of run %s: %s", run->row.id, strerror(-r));
	run->capture = NULL;
	run->is_captured = true;
	run_check_over(run);
}

/* The stream of files has heads of its own beside the bytes that are limited. */
static uint64_t capture_room(const struct run *run)
{
	return (run->service->settings->max_artifact_run_mb << 20) + (UINT64_C(16) << 20);
}

static void collect(struct run *run, int fd)
{
	int file = openat(run->dir_fd, "capture", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (file < 0) {
		(void)log_error(-errno, "cannot keep the files of run %s: %s", run->row.id,
			strerror(errno));
		(void)close(fd);
		return;
	}
	run->is_captured = false;
	run->capture =
		collector_start(run->service->loop, fd, file, capture_room(run), on_captured, run);
}

static void on_listed(void *ctx, int r, struct inventory *listing)
{
	struct run *run = ctx;

	if (r == -EBADMSG)
		log_warn("files of run %s: what its box said of them makes no sense", run->row.id);
	run->lister = NULL;
	run->listing = *listing;
	*listing = (struct inventory){ 0 };
	run->has_listing = r == 0;
	run->is_listed = true;
	run_check_over(run);
}

static void on_started(void *ctx, int fds[CHANNEL_COUNT])
{
	struct run *run = ctx;

	run->is_captured = run->is_listed = true;
	run->out_fd = take_fd(&fds[CHANNEL_STDOUT]);
	run->err_fd = take_fd(&fds[CHANNEL_STDERR]);
	if (run->kernel) {
		kernel_attach(run->kernel, &(struct kernel_fds){
						   .say = take_fd(&fds[CHANNEL_STDIN]),
						   .reply = take_fd(&fds[CHANNEL_REPLY]),
						   .out = take_fd(&run->out_fd),
						   .err = take_fd(&run->err_fd),
					   });
	} else if (run_input_is_typed(run)) {
		run_input_open(run, take_fd(&fds[CHANNEL_STDIN]));
	} else if (run->request.input && !run->is_adopted) {
		run_input_give(run, take_fd(&fds[CHANNEL_STDIN]));
	} else if (fds[CHANNEL_STDIN] >= 0) {
		/* How much of it a predecessor gave is not known: the rest is lost. */
		close_fdp(&fds[CHANNEL_STDIN]);
		run->service->runtime->close_stdin(run->job);
	}
	if (fds[CHANNEL_CAPTURE] >= 0)
		collect(run, take_fd(&fds[CHANNEL_CAPTURE]));
	if (fds[CHANNEL_LISTING] >= 0) {
		run->is_listed = false;
		run->lister = lister_start(
			run->service->loop, take_fd(&fds[CHANNEL_LISTING]), on_listed, run);
	}
	if (fds[CHANNEL_FILES] >= 0)
		feed(run, take_fd(&fds[CHANNEL_FILES]));
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&fds[i]);
}

void run_attach_output(struct run *run)
{
	struct err err = { 0 };

	if (run->is_attached || !run->stream)
		return;
	run->is_attached = true;
	if (stream_attach(run->stream, take_fd(&run->out_fd), take_fd(&run->err_fd), &err) < 0)
		log_warn("output of run %s: %s", run->row.id, err.text);
}

static bool begins_with(struct shared *m, const char *head)
{
	size_t size = strlen(head);

	return m->size >= size && memcmp(shared_data(m), head, size) == 0;
}

/* Has a predecessor of ours said so? Before it come heartbeats, for who listened while the run
 * waited, and after it comes output. */
static bool start_was_told(struct stream *stream)
{
	if (stream_last_seq(stream) == 0)
		return false;
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(stream, 0, NULL, NULL);
	for (;;) {
		CLEANUP(shared_unrefp) struct shared *m = cursor_next(c);

		if (!m)
			return false;
		if (begins_with(m, "{\"type\":\"event\",\"event\":\"start\"") ||
			begins_with(m, "{\"type\":\"std"))
			return true;
	}
}

static void on_running(void *ctx, uint64_t started_ns)
{
	struct run *run = ctx;
	struct service *s = run->service;
	char at[DATE_SIZE + 1];
	char data[64];

	if (run->phase == PHASE_RUNNING)
		return;
	date_format(started_ns, at);
	run_set_text(&run->row.started_at, at);
	run->started_ns = clock_monotonic_ns();
	bool is_told = !run->stream || start_was_told(run->stream);
	if (is_told)
		run_move_untold(run, PHASE_RUNNING);
	else
		run_move(run, PHASE_RUNNING);
	metrics_observe(s->metrics, METRIC_START_LATENCY, METRICS_LABELS(run->row.runtime),
		(double)(run->started_ns - run->accepted_ns) / NS_PER_SEC);
	if (!is_told) {
		(void)snprintf(data, sizeof(data), "{\"ts\":\"%s\"}", at);
		(void)stream_event(run->stream, "start", data);
	}
	run_input_begin(run);
	run_attach_output(run);
	run_audit(run, "sandbox.run.running", NULL);
}

static void wait_again(struct run *run)
{
	struct service *s = run->service;

	queue_end(&s->queue, run->row.user_id);
	run->holds_slot = false;
	queue_push(&s->queue, &run->waiting, run->row.user_id, clock_monotonic_ns());
}

/* Files are the only thing that a run needs of a living server: if its own died over them, it
 * did not begin, and still can. */
static bool lacked_files(const struct run *run, const struct result *result)
{
	return !run->is_fed && run_takes_files(run) && result->started_ns == 0 &&
	       result->reason == REASON_PROVISION_FAILED;
}

static void start_again(struct run *run)
{
	struct service *s = run->service;

	s->runtime->release(TAKE(run->job));
	close_fdp(&run->out_fd);
	close_fdp(&run->err_fd);
	run_input_retract(run);
	collector_free(TAKE(run->capture));
	lister_free(TAKE(run->lister));
	run_move(run, PHASE_QUEUED);
	wait_again(run);
	run_fill_request(run, false);
	run_store(run);
	service_dispatch(s);
}

static void on_ended(void *ctx, const struct result *result)
{
	struct run *run = ctx;

	if (lacked_files(run, result))
		start_again(run);
	else
		run_end(run, result);
}

static void on_refused(void *ctx, enum reason reason, int code, const char *text)
{
	struct run *run = ctx;

	(void)code;
	run->service->runtime->release(TAKE(run->job));
	run_end_without(run, reason, NULL, text);
}

static void on_lost(void *ctx)
{
	struct run *run = ctx;

	run->service->runtime->release(TAKE(run->job));
	run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL,
		"the keeper that executed it is gone, and the run with it");
}

static void on_used(void *ctx, uint64_t cpu_us, bool is_frozen)
{
	struct run *run = ctx;

	if (run->kernel && !run->has_result)
		kernel_on_used(run->kernel, cpu_us, is_frozen);
}

const struct job_events run_job_events = {
	.started = on_started,
	.running = on_running,
	.ended = on_ended,
	.refused = on_refused,
	.lost = on_lost,
	.used = on_used,
};

static int start_job(struct run *run, struct spec *spec)
{
	struct service *s = run->service;
	int r = s->runtime->start(s->host, spec, &run_job_events, run, &run->job);

	if (r < 0)
		return r;
	run_move(run, PHASE_STARTING);
	run->asked_ns = clock_monotonic_ns();
	run->is_late = false;
	metrics_observe(s->metrics, METRIC_QUEUE_WAIT, METRICS_LABELS(run->row.runtime),
		(double)(run->asked_ns - run->accepted_ns) / NS_PER_SEC);
	run_audit(run, "sandbox.run.starting", NULL);
	return 0;
}

/* The keeper ends what does not start in time; this is for one that does not answer. Twice, since
 * its word may be there, and unread because we were busy ourselves. */
void run_start_tick(struct run *run, uint64_t now_ns)
{
	uint64_t startup_ns = run->policy.limits.startup_ms * NS_PER_MS;

	if (run->phase != PHASE_STARTING || !run->job || !run->asked_ns || run->has_result ||
		now_ns < run->asked_ns + startup_ns)
		return;
	if (!run->is_late) {
		run->is_late = true;
		return;
	}
	log_warn("the keeper neither started run %s nor gave it up", run->row.id);
	run->service->runtime->release(TAKE(run->job));
	enum reason reason = run->cancels ? REASON_CANCELED_BY_USER : REASON_STARTUP_TIMEOUT;
	run_end_without(run, reason, NULL, reason_name(reason));
}

/* Why it can not be executed in its session, or NULL. */
static const char *lacks_files(const struct run *run)
{
	if (!run->row.session_id)
		return NULL;
	if (!run->session || run->session->is_lost)
		return "the files of its session were lost when the keeper ended";
	if (run->session->mark == SESSION_RESTORING)
		return "a restore left the files of its session half done, and they could not be "
		       "put back";
	return NULL;
}

void run_launch(struct run *run)
{
	struct err err = { 0 };
	struct spec spec;

	if (run_awaits_files(run)) {
		run_give_way(run);
		return;
	}
	if (lacks_files(run)) {
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL, lacks_files(run));
		return;
	}
	fill_spec(run, &spec);
	int r = choose_image(run, &spec, &err);
	if (r < 0) {
		run_end_without(run, REASON_IMAGE_PULL_FAILED, NULL, err.text);
	} else {
		r = start_job(run, &spec);
		if (r == -EAGAIN)
			wait_again(run);
		else if (r < 0)
			run_end_without(run,
				r == -E2BIG ? REASON_PROVISION_FAILED : REASON_INFRASTRUCTURE_ERROR,
				NULL,
				r == -E2BIG ? "command and environment together are too large"
					    : "the keeper could not be reached");
	}
	spec_fini(&spec);
}

void run_begin(struct run *run)
{
	run_launch(run);
	if (!run->waiting.user)
		return;
	/* The keeper or its files went meanwhile. Or a successor of ours would believe that it had
	 * begun. */
	run_fill_request(run, false);
	if (!run->held)
		run_store(run);
	else if (run->is_noted)
		run_store_held(run);
}

static void on_turn_stored(void *ctx, int r)
{
	struct run *run = ctx;

	run->service->n_pending--;
	run->n_work--;
	if (run->service->is_closing)
		return; /* the next server finds it in the store */
	if (run->has_result)
		run_check_over(run);
	else if (r < 0)
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL,
			"that it begins could not be stored");
	else
		run_begin(run);
}

static void take_turn(struct run *run)
{
	run_fill_request(run, true);
	if (run->held && !run->is_noted) {
		run_begin(run); /* nobody else knows of it */
		return;
	}
	struct store_batch *b = store_batch_new(run->service->store);
	run_set_text(&run->row.phase, phase_name(PHASE_STARTING));
	store_batch_put(b, &run_table, &run->row);
	run_set_text(&run->row.phase, phase_name(PHASE_QUEUED));
	run->n_work++;
	run->service->n_pending++;
	store_commit(b, on_turn_stored, run);
}

void run_take_turn(struct run *run)
{
	run->holds_slot = true;
	if (run_awaits_files(run))
		run_give_way(run);
	else
		run_fetch(run, take_turn);
}
