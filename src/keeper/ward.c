/* One run, from the request to the acknowledged result:
 *
 *   starting --running--> running --exited--> ending --captured--> ended --ack--> (closed)
 *
 * "Ending" is the time in which init sends files out, or their names. A run is reported once, when
 * no process of the guest lives any more; what is left then is our own init, on
 * its way out. Here a run is started and ended; ward_hear.c hears of its box, and
 * ward_tell.c tells its client. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
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
#include "box/idmap.h"
#include "box/root.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

#define NS_PER_MS UINT64_C(1000000)

/* How long init may take to kill and reap before it is killed itself. */
#define ENDING_MS 5000

/* A guest may run before we have heard so. Until then a cancel is given this long. */
#define STARTING_GRACE_MS 500

struct ward *ward_find(struct keeper *k, const char *id)
{
	for (struct ward *r = k->runs; r; r = r->next) {
		if (streq(r->id, id))
			return r;
	}
	return NULL;
}

void ward_set_deadline(struct ward *r, uint64_t from_ns, uint64_t ms)
{
	r->deadline_ns = from_ns + ms * NS_PER_MS;
}

void ward_shorten_deadline(struct ward *r, uint64_t from_ns, uint64_t ms)
{
	uint64_t before = r->deadline_ns;

	ward_set_deadline(r, from_ns, ms);
	if (before && before < r->deadline_ns)
		r->deadline_ns = before;
}

/* A frozen init hears nothing. */
static void ask_box(struct ward *r, uint32_t type, const struct put *payload)
{
	ward_thaw(r);
	if (r->control.fd >= 0)
		(void)frame_send(r->control.fd, type, payload, NULL, 0);
}

void ward_freeze(struct ward *r)
{
	/* What goes to its end is not kept from it. */
	if (r->state != RUN_RUNNING || r->cause != CAUSE_NONE || r->kill_sent)
		return;
	int result = boxes_freeze(r->boxed);
	if (result < 0 && result != -EOPNOTSUPP)
		log_warn("run=%s: it can not be frozen: %s", r->id, strerror(-result));
}

void ward_thaw(struct ward *r)
{
	if (r->boxed)
		boxes_thaw(r->boxed);
}

/* Ask init to kill everybody else, so that it can still report and send files; a
 * box that has not started yet has nothing to report and goes at once. */
static void kill_guest(struct ward *r)
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
	ward_set_deadline(r, now, ENDING_MS);
}

/* A box that is starting reads this as soon as it has a guest. */
void ward_signal(struct keeper *k, struct ward *r, int sig)
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

void ward_cancel(struct keeper *k, struct ward *r, enum cause cause)
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
	ward_signal(k, r, SIGTERM);
	ward_signal(k, r, SIGCONT); /* a stopped guest would not hear it */
	bool starting = r->state == RUN_STARTING && r->limits.grace_ms > STARTING_GRACE_MS;
	ward_shorten_deadline(
		r, clock_monotonic_ns(), starting ? STARTING_GRACE_MS : r->limits.grace_ms);
}

static enum cause cause_of_deadline(const struct ward *r)
{
	return r->state == RUN_STARTING ? CAUSE_STARTUP_TIMEOUT : CAUSE_TIMEOUT;
}

/* One that captures is asked, as when its time is up: the kernel may have killed one process only,
 * and not init. If it did, or does so yet, the box is gone. */
void ward_on_memory(struct ward *r)
{
	if (r->cause == CAUSE_NONE)
		r->cause = CAUSE_OOM;
	if (r->captures && r->state == RUN_ENDING)
		return; /* the guest is dead, and its files are under way */
	if (r->captures && !r->kill_sent) {
		kill_guest(r);
		return;
	}
	boxes_kill(r->boxed);
	r->killed = true;
}

void ward_on_deadline(struct keeper *k, struct ward *r)
{
	(void)k;
	if (r->cause == CAUSE_NONE && r->state != RUN_ENDING)
		r->cause = cause_of_deadline(r);
	kill_guest(r);
}

void ward_finish(struct keeper *k, struct ward *r)
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
	disposer_close(&k->disposer, &r->workspace_fd);
	workspaces_settle(k, r);
	boxes_retire(k, TAKE(r->boxed));
	ward_tell_ended(k, r);
	if (!r->peer && !r->lingers)
		ward_close(k, r);
}

/* The client's end of a channel and the box's. */
static int make_channel(enum channel channel, int *ret_client, int *ret_box)
{
	int ends[2];

	if (channel == CHANNEL_STDIN)
		return fd_pipe(ret_box, ret_client);
	/* Pipes, so that a client may splice them: a byte is then either in the pipe or where
	 * it belongs, whenever the client dies. And a guest never holds an end of a socket whose
	 * other end is ours: it could send descriptors, and who closes one of these waits for as
	 * long as its file makes it wait. CHANNEL_FILES is closed before there is a guest. */
	if (channel == CHANNEL_STDOUT || channel == CHANNEL_STDERR || channel >= CHANNEL_CAPTURE)
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
	       (s->globs && s->globs[0] ? 1u << CHANNEL_CAPTURE : 0) |
	       (s->lists ? 1u << CHANNEL_LISTING : 0) | (s->talks ? 1u << CHANNEL_REPLY : 0);
}

/* A guest that opens /dev/stdout opens the pipe anew, and needs a right to it. The pipes of a talk
 * are not its user's: nobody opens them again by name. */
static int own_by_guest(const struct ward *r, const struct spec *spec, enum channel channel, int fd)
{
	if (channel > CHANNEL_STDERR || (channel == CHANNEL_STDIN && spec->talks))
		return 0;
	return fchown(fd, r->boxed->box.uid, (gid_t)-1) < 0 ? -errno : 0;
}

/* Hand the specification and the box's ends of its channels to init; and last the mount of
 * its workspace, if that is not its own (-1: it is, or comes later). */
static int send_spec(struct ward *r, const struct spec *spec, int workspace_fd, struct err *err)
{
	uint32_t mask = channels_of(spec);
	int box_fds[CHANNEL_COUNT + 1] = { 0 };
	size_t n = 0;
	struct put out;
	int result = 0;

	for (int i = 0; i < CHANNEL_COUNT && result == 0; i++) {
		int box_fd = -1;

		if (!(mask & (1u << i)))
			continue;
		result = make_channel((enum channel)i, &r->fds[i], &box_fd);
		if (result < 0)
			break;
		box_fds[n++] = box_fd;
		result = own_by_guest(r, spec, (enum channel)i, box_fd);
	}
	if (spec->deaf)
		close_fdp(&r->fds[CHANNEL_STDIN]);
	size_t n_ours = n;
	if (workspace_fd >= 0)
		box_fds[n++] = workspace_fd;
	put_init(&out, FRAME_SIZE_MAX);
	spec_put(spec, &out);
	put_u32(&out, mask);
	if (result == 0)
		result = frame_send(r->control.fd, MESSAGE_BOX_SPEC, &out, box_fds, n);
	put_fini(&out);
	for (size_t i = 0; i < n_ours; i++)
		(void)close(box_fds[i]);
	return result < 0 ? err_set(err, result, "hand over the run: %s", strerror(-result)) : 0;
}

static struct ward *new_run(struct keeper *k, struct peer *p, const struct spec *spec)
{
	struct ward *r = xnew(struct ward);

	r->peer = p;
	r->owner = p->uid;
	memcpy(r->id, spec->id, sizeof(r->id));
	r->limits = spec->limits;
	r->lingers = spec->lingers;
	r->exec = spec->exec;
	r->is_python = boxes_is_python(spec);
	r->owes_files = spec->globs && spec->globs[0];
	r->captures = r->owes_files || spec->lists;
	r->state = RUN_STARTING;
	ward_hear_prepare(r);
	r->workspace_fd = -1;
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

/* A clone of its workspace's mount, for its box: to be sent along, or kept until its init, who
 * is not far enough yet, asks for it. */
static int open_workspace(
	struct keeper *k, struct ward *r, const struct spec *spec, int *ret_fd, struct err *err)
{
	AUTO_FD fd = -1;
	int result = workspaces_open(k, r, spec, &fd, err);

	if (result == 0 && r->workspace->uid == BOX_ANY_UID)
		result = idmap_mount(fd, &r->boxed->box, err);
	if (result == -EAGAIN)
		r->workspace_fd = take_fd(&fd);
	else if (result < 0)
		return result;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int start_box(struct keeper *k, struct ward *r, const struct root *root,
	const struct spec *spec, struct err *err)
{
	uid_t uid = r->workspace ? r->workspace->uid : BOX_ANY_UID;
	AUTO_FD workspace_fd = -1;
	int result = boxes_take(k, root, spec, uid, &r->boxed, err);

	if (result == 0 && r->workspace)
		result = open_workspace(k, r, spec, &workspace_fd, err);
	if (result < 0)
		return result;
	const struct cgroup *cgroup = r->boxed->cgroup;
	result = watch_start(k, &r->control, r->boxed->box.control_fd, EPOLLIN);
	if (result == 0 && cgroup_event_fd(cgroup) >= 0)
		result = watch_start(
			k, &r->memory, cgroup_event_fd(cgroup), cgroup_event_mask(cgroup));
	if (result < 0)
		return err_set(err, result, "watch the box");
	return send_spec(r, spec, workspace_fd, err);
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

/* What a cgroup counts has init among it, which is not the guest's. So the rlimit, which counts it
 * too, is one more again: it must not refuse what the cgroup would, which says so. */
void ward_count_init(const struct keeper *k, struct limits *l)
{
	if (cgroup_host_facets(k->cgroups) & FACET_BIT(FACET_PIDS) && l->pids < SPEC_PIDS_MAX)
		l->pids++;
}

int ward_start(struct keeper *k, struct peer *p, struct spec *spec, enum reason *ret_reason,
	struct err *err)
{
	struct root *root = NULL;

	*ret_reason = REASON_POLICY_DENIED;
	if (ward_find(k, spec->id))
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
	struct workspace *workspace = NULL;
	if (spec->workspace[0]) {
		workspace = workspaces_find(k, spec->workspace, p->uid);
		if (!workspace)
			return err_set(err, -ENOENT, "there is no workspace %s", spec->workspace);
	}
	struct ward *r = new_run(k, p, spec);
	r->workspace = workspace;
	ward_count_init(k, &spec->limits);
	result = start_box(k, r, root, spec, err);
	if (result < 0) {
		r->peer = NULL;
		ward_close(k, r);
		return result;
	}
	ward_set_deadline(r, clock_monotonic_ns(), r->limits.startup_ms);
	if (!spec->tty) {
		ward_tell_started(k, r);
		ward_drop_duplicates(r);
	}
	return 0;
}

int ward_attach(struct keeper *k, struct ward *r, struct peer *p, struct err *err)
{
	/* Who hears of it now would wait for ever. */
	if (r->peer && r->peer != p)
		return err_set(err, -EBUSY, "another client is attached to run %s", r->id);
	r->peer = p;
	ward_tell_started(k, r);
	if (r->state != RUN_STARTING && r->result.started_ns)
		ward_tell_running(k, r);
	if (r->state == RUN_ENDED)
		ward_tell_ended(k, r);
	return 0;
}

void ward_orphan(struct keeper *k, struct ward *r)
{
	r->peer = NULL;
	if (r->lingers)
		return;
	if (r->state == RUN_ENDED)
		ward_close(k, r);
	else
		ward_cancel(k, r, CAUSE_CLIENT_GONE);
}

static void unlink_run(struct keeper *k, struct ward *r)
{
	for (struct ward **at = &k->runs; *at; at = &(*at)->next) {
		if (*at == r) {
			*at = r->next;
			k->n_runs--;
			return;
		}
	}
}

void ward_close(struct keeper *k, struct ward *r)
{
	if (r->closed)
		return;
	r->closed = true;
	watch_stop(k, &r->control);
	watch_stop(k, &r->pid);
	watch_stop(k, &r->memory);
	boxes_retire(k, TAKE(r->boxed));
	disposer_close(&k->disposer, &r->workspace_fd);
	workspaces_settle(k, r);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&r->fds[i]);
	unlink_run(k, r);
	r->next = k->dead_runs;
	k->dead_runs = r;
}
