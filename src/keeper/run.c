/* One run, from the request to the acknowledged result:
 *
 *   starting --running--> running --exited--> ending --init gone--> ended --ack--> (closed)
 *
 * "Ending" is the time in which init sends files out. A run is reported once, when
 * no process of the guest lives any more; what is left then is our own init, on
 * its way out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/root.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

#define NS_PER_MS UINT64_C(1000000)

/* How long init may take to kill and reap before it is killed itself, and how
 * long a client may take to read the captured files. */
#define ENDING_MS  5000
#define CAPTURE_MS 120000

/* A guest may run before we have heard so. Until then a cancel is given this long. */
#define STARTING_GRACE_MS 500

struct run *run_find(struct keeper *k, const char *id)
{
	for (struct run *r = k->runs; r; r = r->next) {
		if (streq(r->id, id))
			return r;
	}
	return NULL;
}

static void set_deadline(struct run *r, uint64_t from_ns, uint64_t ms)
{
	r->deadline_ns = from_ns + ms * NS_PER_MS;
}

/* The same, unless it is to end earlier already. */
static void shorten_deadline(struct run *r, uint64_t from_ns, uint64_t ms)
{
	uint64_t before = r->deadline_ns;

	set_deadline(r, from_ns, ms);
	if (before && before < r->deadline_ns)
		r->deadline_ns = before;
}

static void tell(struct keeper *k, struct run *r, uint32_t type, const struct put *payload)
{
	if (r->peer)
		peer_send(k, r->peer, type, payload, NULL, 0);
}

/* STARTED, with a descriptor for every channel the client has an end of. */
static void tell_started(struct keeper *k, struct run *r)
{
	struct put out;
	int fds[CHANNEL_COUNT];
	uint32_t mask = 0;
	size_t n = 0;

	for (int i = 0; i < CHANNEL_COUNT; i++) {
		if (r->fds[i] < 0)
			continue;
		mask |= 1u << i;
		fds[n++] = r->fds[i];
	}
	put_init(&out, 256);
	put_str(&out, r->id);
	put_u32(&out, mask);
	if (r->peer)
		peer_send(k, r->peer, MESSAGE_STARTED, &out, fds, n);
	put_fini(&out);
}

/* A client that may not come back needs no duplicates; and while we hold one of
 * the write ends, the reader never sees its end. */
static void drop_duplicates(struct run *r)
{
	close_fdp(&r->fds[CHANNEL_FILES]);
	if (r->lingers)
		return;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&r->fds[i]);
}

static void tell_running(struct keeper *k, struct run *r)
{
	struct put out;

	put_init(&out, 256);
	put_str(&out, r->id);
	put_u64(&out, r->result.started_ns);
	tell(k, r, MESSAGE_RUNNING, &out);
	put_fini(&out);
}

static void tell_ended(struct keeper *k, struct run *r)
{
	struct put out;

	put_init(&out, 1024);
	result_put(&r->result, &out);
	tell(k, r, MESSAGE_ENDED, &out);
	put_fini(&out);
}

static void ask_box(struct run *r, uint32_t type, const struct put *payload)
{
	if (r->control.fd >= 0)
		(void)frame_send(r->control.fd, type, payload, NULL, 0);
}

/* Ask init to kill everybody else, so that it can still report and send files; a
 * box that has not started yet has nothing to report and goes at once. */
static void kill_guest(struct run *r)
{
	uint64_t now = clock_monotonic_ns();

	if (r->state == RUN_STARTING || r->kill_sent) {
		boxes_kill(r->boxed);
		r->killed = true;
		r->deadline_ns = 0;
		return;
	}
	r->kill_sent = true;
	ask_box(r, MESSAGE_BOX_KILL, NULL);
	set_deadline(r, now, ENDING_MS);
}

/* A box that is starting reads this as soon as it has a guest. */
void run_signal(struct keeper *k, struct run *r, int sig)
{
	struct put out;

	(void)k;
	if (r->state != RUN_STARTING && r->state != RUN_RUNNING)
		return;
	put_init(&out, 64);
	put_u32(&out, (uint32_t)sig);
	ask_box(r, MESSAGE_BOX_SIGNAL, &out);
	put_fini(&out);
}

void run_cancel(struct keeper *k, struct run *r, enum cause cause)
{
	bool at_once = cause == CAUSE_CLIENT_GONE || r->limits.grace_ms == 0;

	if (r->state == RUN_ENDED)
		return;
	/* What has ended by itself is only hurried: that stays how it ended. */
	if (r->state == RUN_ENDING || (r->cause != CAUSE_NONE && at_once)) {
		kill_guest(r);
		return;
	}
	if (r->cause != CAUSE_NONE)
		return;
	r->cause = cause;
	if (at_once) {
		kill_guest(r);
		return;
	}
	run_signal(k, r, SIGTERM);
	run_signal(k, r, SIGCONT); /* a stopped guest would not hear it */
	bool starting = r->state == RUN_STARTING && r->limits.grace_ms > STARTING_GRACE_MS;
	shorten_deadline(
		r, clock_monotonic_ns(), starting ? STARTING_GRACE_MS : r->limits.grace_ms);
}

static enum cause cause_of_deadline(const struct run *r)
{
	return r->state == RUN_STARTING ? CAUSE_STARTUP_TIMEOUT : CAUSE_TIMEOUT;
}

void run_on_deadline(struct keeper *k, struct run *r)
{
	(void)k;
	if (r->cause == CAUSE_NONE && r->state != RUN_ENDING)
		r->cause = cause_of_deadline(r);
	kill_guest(r);
}

/* A time that init measured, if it can be true. */
static uint64_t plausible_ns(uint64_t ns, uint64_t not_before)
{
	uint64_t now = clock_monotonic_ns();

	return ns < not_before || ns > now ? now : ns;
}

static int on_box_running(struct keeper *k, struct run *r, struct cur *c)
{
	uint64_t at = cur_u64(c);

	if (cur_end(c) < 0)
		return -EBADMSG;
	r->started_mono_ns = plausible_ns(at, 0);
	r->result.started_ns = clock_realtime_ns() - (clock_monotonic_ns() - r->started_mono_ns);
	r->state = RUN_RUNNING;
	set_deadline(r, r->started_mono_ns, r->limits.timeout_ms);
	if (r->cause == CAUSE_CANCEL)
		shorten_deadline(r, clock_monotonic_ns(), r->limits.grace_ms);
	tell_running(k, r);
	return 0;
}

static void finish(struct keeper *k, struct run *r);

/* The guest and all it started are dead and reaped. */
static int on_box_exited(struct keeper *k, struct run *r, struct cur *c)
{
	struct usage *u = &r->result.usage;
	uint64_t at = cur_u64(c);
	int status = (int)cur_u32(c);
	uint64_t cpu_us = cur_u64(c);
	uint64_t peak = cur_u64(c);
	uint64_t open_files = cur_u64(c);
	uint64_t processes = cur_u64(c);

	if (cur_end(c) < 0)
		return -EBADMSG;
	r->status = status;
	r->has_status = true;
	r->ended_mono_ns = plausible_ns(at, r->started_mono_ns);
	u->cpu_us = cpu_us;
	u->peak_bytes = peak;
	u->open_files = open_files;
	r->sampled_processes = processes;
	r->state = RUN_ENDING;
	r->kill_sent = true; /* nobody is left to be asked about */
	set_deadline(r, r->ended_mono_ns, CAPTURE_MS);
	if (!r->captures)
		finish(k, r);
	return 0;
}

static int on_box_failed(struct run *r, struct cur *c)
{
	uint32_t reason = cur_u32(c);
	uint32_t error = cur_u32(c);
	char text[sizeof(r->result.message)];

	cur_str_into(c, text, sizeof(text));
	if (cur_end(c) < 0 || (reason != REASON_PROVISION_FAILED && reason != REASON_EXEC_FAILED))
		return -EBADMSG;
	r->has_failed = true;
	r->result.reason = (enum reason)reason;
	r->result.error = (int32_t)error;
	memcpy(r->result.message, text, sizeof(text));
	return 0;
}

static int on_box_captured(struct run *r, struct cur *c)
{
	uint64_t bytes = cur_u64(c);
	char text[256];

	cur_str_into(c, text, sizeof(text));
	if (cur_end(c) < 0)
		return -EBADMSG;
	r->result.usage.captured_bytes = bytes;
	if (text[0])
		(void)snprintf(
			r->result.message, sizeof(r->result.message), "capture: %.200s", text);
	return 0;
}

static int on_box_tty(struct keeper *k, struct run *r, struct frame *f)
{
	if (f->n_fds != 1 || r->fds[CHANNEL_TTY] >= 0)
		return -EBADMSG;
	r->fds[CHANNEL_TTY] = take_fd(&f->fds[0]);
	tell_started(k, r);
	drop_duplicates(r);
	return 0;
}

/* What init may say, and when. It is ours, but it lives with the guest. */
static int on_box_message(struct keeper *k, struct run *r, struct frame *f)
{
	struct cur c;

	cur_init(&c, f->data, f->size);
	if (f->type == MESSAGE_BOX_TTY && r->state == RUN_STARTING)
		return on_box_tty(k, r, f);
	if (f->type == MESSAGE_BOX_RUNNING && r->state == RUN_STARTING)
		return on_box_running(k, r, &c);
	if (f->type == MESSAGE_BOX_FAILED && r->state == RUN_STARTING)
		return on_box_failed(r, &c);
	if (f->type == MESSAGE_BOX_EXITED && r->state == RUN_RUNNING)
		return on_box_exited(k, r, &c);
	if (f->type == MESSAGE_BOX_CAPTURED && r->state == RUN_ENDING && r->captures)
		return on_box_captured(r, &c);
	return -EBADMSG;
}

/* No guest lives any more: tell how it ended, let the box go, keep the result. */
static void finish(struct keeper *k, struct run *r)
{
	watch_stop(k, &r->control);
	watch_stop(k, &r->pid);
	watch_stop(k, &r->memory);
	if (!r->ended_mono_ns)
		r->ended_mono_ns = clock_monotonic_ns();
	r->result.ended_ns = clock_realtime_ns() - (clock_monotonic_ns() - r->ended_mono_ns);
	verdict_reach(r);
	r->state = RUN_ENDED;
	r->deadline_ns = 0;
	boxes_retire(k, TAKE(r->boxed));
	tell_ended(k, r);
	if (!r->peer && !r->lingers)
		run_close(k, r);
}

static void on_init_gone(struct keeper *k, void *owner, uint32_t events)
{
	struct run *r = owner;

	(void)events;
	if (!r->closed && box_reap(&r->boxed->box))
		finish(k, r);
}

/* Init closed its socket, so it is about to be gone: usually it is by now. */
static void await_end(struct keeper *k, struct run *r)
{
	watch_stop(k, &r->control);
	if (box_reap(&r->boxed->box))
		finish(k, r);
	else if (watch_start(k, &r->pid, r->boxed->box.pid_fd, EPOLLIN) < 0)
		abort();
}

static void on_control(struct keeper *k, void *owner, uint32_t events)
{
	struct run *r = owner;
	struct frame f;

	(void)events;
	while (!r->closed && r->control.fd >= 0) {
		int n = frame_recv(r->control.fd, k->buffer, &f);

		if (n == -EAGAIN)
			return;
		if (n == 1) {
			n = on_box_message(k, r, &f);
			frame_close_fds(&f);
			if (n == 0)
				continue;
		}
		if (n < 0 && n != -ECONNRESET) {
			log_warn("event=bad_ipc run=%s: its init misbehaves, killing it", r->id);
			boxes_kill(r->boxed);
			r->killed = true;
		}
		await_end(k, r);
		return;
	}
}

static void on_memory(struct keeper *k, void *owner, uint32_t events)
{
	struct run *r = owner;

	(void)events;
	if (r->closed || !r->boxed || !cgroup_ack_event(r->boxed->cgroup))
		return;
	/* Where the kernel kills one process only, we end the rest with it. */
	if (r->cause == CAUSE_NONE)
		r->cause = CAUSE_OOM;
	watch_stop(k, &r->memory);
	boxes_kill(r->boxed);
	r->killed = true;
}

/* The client's end of a channel and the box's. */
static int make_channel(enum channel channel, int *ret_client, int *ret_box)
{
	int ends[2];

	if (channel == CHANNEL_STDIN)
		return fd_pipe(ret_box, ret_client);
	if (channel == CHANNEL_STDOUT || channel == CHANNEL_STDERR)
		return fd_pipe(ret_client, ret_box);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	*ret_client = ends[0];
	*ret_box = ends[1];
	return 0;
}

static uint32_t channels_of(const struct spec *s)
{
	uint32_t stdio = (1u << CHANNEL_STDIN) | (1u << CHANNEL_STDOUT) | (1u << CHANNEL_STDERR);

	return (s->tty ? 0 : stdio) | (s->takes_files ? 1u << CHANNEL_FILES : 0) |
	       (s->globs && s->globs[0] ? 1u << CHANNEL_CAPTURE : 0);
}

/* A guest that opens /dev/stdout opens the pipe anew, and needs a right to it. */
static int own_by_guest(const struct run *r, enum channel channel, int fd)
{
	if (channel > CHANNEL_STDERR)
		return 0;
	return fchown(fd, r->boxed->box.uid, (gid_t)-1) < 0 ? -errno : 0;
}

/* Hand the specification and the box's ends of its channels to init. */
static int send_spec(struct run *r, const struct spec *spec, struct err *err)
{
	uint32_t mask = channels_of(spec);
	int box_fds[CHANNEL_COUNT];
	size_t n = 0;
	struct put out;
	int result = 0;

	for (int i = 0; i < CHANNEL_COUNT && result == 0; i++) {
		if (!(mask & (1u << i)))
			continue;
		result = make_channel((enum channel)i, &r->fds[i], &box_fds[n]);
		if (result < 0)
			break;
		result = own_by_guest(r, (enum channel)i, box_fds[n++]);
	}
	put_init(&out, FRAME_SIZE_MAX);
	spec_put(spec, &out);
	put_u32(&out, mask);
	if (result == 0)
		result = frame_send(r->control.fd, MESSAGE_BOX_SPEC, &out, box_fds, n);
	put_fini(&out);
	for (size_t i = 0; i < n; i++)
		(void)close(box_fds[i]);
	return result < 0 ? err_set(err, result, "hand over the run: %s", strerror(-result)) : 0;
}

static struct run *new_run(struct keeper *k, struct peer *p, const struct spec *spec)
{
	struct run *r = xnew(struct run);

	r->peer = p;
	r->owner = p->uid;
	memcpy(r->id, spec->id, sizeof(r->id));
	r->limits = spec->limits;
	r->lingers = spec->lingers;
	r->captures = spec->globs && spec->globs[0];
	r->state = RUN_STARTING;
	r->control = (struct watch){ .fd = -1, .on_event = on_control, .owner = r };
	r->pid = (struct watch){ .fd = -1, .on_event = on_init_gone, .owner = r };
	r->memory = (struct watch){ .fd = -1, .on_event = on_memory, .owner = r };
	for (int i = 0; i < CHANNEL_COUNT; i++)
		r->fds[i] = -1;
	memcpy(r->result.id, spec->id, sizeof(r->result.id));
	r->result.created_ns = clock_realtime_ns();
	r->result.exit_code = -1;
	r->result.enforced = k->facets;
	r->result.usage = (struct usage){
		.peak_bytes = USAGE_UNKNOWN, .pids = USAGE_UNKNOWN, .open_files = USAGE_UNKNOWN
	};
	r->sampled_processes = USAGE_UNKNOWN;
	r->next = k->runs;
	k->runs = r;
	k->n_runs++;
	return r;
}

static int start_box(struct keeper *k, struct run *r, const struct root *root,
	const struct spec *spec, struct err *err)
{
	int result = boxes_take(k, root, &spec->limits, &r->boxed, err);

	if (result < 0)
		return result;
	const struct cgroup *cgroup = r->boxed->cgroup;
	result = watch_start(k, &r->control, r->boxed->box.control_fd, EPOLLIN);
	if (result == 0 && cgroup_event_fd(cgroup) >= 0)
		result = watch_start(
			k, &r->memory, cgroup_event_fd(cgroup), cgroup_event_mask(cgroup));
	if (result < 0)
		return err_set(err, result, "watch the box");
	return send_spec(r, spec, err);
}

/* What is missing of the facets that a run insists on. */
static int check_required(const struct keeper *k, const struct spec *spec, struct err *err)
{
	uint64_t missing = spec->require & ~k->facets;
	char names[160] = "";

	if (!missing)
		return 0;
	for (int f = 0; f < FACET_COUNT; f++) {
		size_t used = strlen(names);

		if (missing & FACET_BIT(f))
			(void)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
				facet_name((enum facet)f));
	}
	return err_set(err, -ENOTSUP, "this host can not enforce what is required: %s", names);
}

int run_start(struct keeper *k, struct peer *p, struct spec *spec, enum reason *ret_reason,
	struct err *err)
{
	struct root *root = NULL;

	*ret_reason = REASON_POLICY_DENIED;
	if (run_find(k, spec->id))
		return err_set(err, -EEXIST, "there is a run %s already", spec->id);
	int result = check_required(k, spec, err);
	if (result < 0)
		return result;
	*ret_reason = REASON_INFRASTRUCTURE_ERROR;
	if (k->n_runs >= RUNS_MAX || k->stopping)
		return err_set(
			err, -EAGAIN, "the keeper holds %zu runs and takes no more", k->n_runs);
	*ret_reason = REASON_IMAGE_PULL_FAILED;
	result = images_find_root(k, spec->image, &root, err);
	if (result == -ENOENT)
		return result;
	*ret_reason = REASON_PROVISION_FAILED;
	if (result < 0)
		return result;
	struct run *r = new_run(k, p, spec);
	result = start_box(k, r, root, spec, err);
	if (result < 0) {
		r->peer = NULL;
		run_close(k, r);
		return result;
	}
	set_deadline(r, clock_monotonic_ns(), r->limits.startup_ms);
	if (!spec->tty) {
		tell_started(k, r);
		drop_duplicates(r);
	}
	return 0;
}

int run_attach(struct keeper *k, struct run *r, struct peer *p, struct err *err)
{
	/* Who hears of it now would wait for ever. */
	if (r->peer && r->peer != p)
		return err_set(err, -EBUSY, "another client is attached to run %s", r->id);
	r->peer = p;
	tell_started(k, r);
	if (r->state != RUN_STARTING && r->result.started_ns)
		tell_running(k, r);
	if (r->state == RUN_ENDED)
		tell_ended(k, r);
	return 0;
}

void run_orphan(struct keeper *k, struct run *r)
{
	r->peer = NULL;
	if (r->lingers)
		return;
	if (r->state == RUN_ENDED)
		run_close(k, r);
	else
		run_cancel(k, r, CAUSE_CLIENT_GONE);
}

static void unlink_run(struct keeper *k, struct run *r)
{
	for (struct run **at = &k->runs; *at; at = &(*at)->next) {
		if (*at == r) {
			*at = r->next;
			k->n_runs--;
			return;
		}
	}
}

void run_close(struct keeper *k, struct run *r)
{
	if (r->closed)
		return;
	r->closed = true;
	watch_stop(k, &r->control);
	watch_stop(k, &r->pid);
	watch_stop(k, &r->memory);
	boxes_retire(k, TAKE(r->boxed));
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&r->fds[i]);
	unlink_run(k, r);
	r->next = k->dead_runs;
	k->dead_runs = r;
}
