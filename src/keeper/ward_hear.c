/* What a run hears of its box: messages of init, the end of init, and the kernel's word
 * that memory ran out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "box/cgroup.h"
#include "box/idmap.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

/* How long a client may take to read the captured files. */
#define CAPTURE_MS 120000
#define ERRNO_MAX  4095u /* the kernel's */

/* A time that init measured, if it can be true. */
static uint64_t plausible_ns(uint64_t ns, uint64_t not_before)
{
	uint64_t now = clock_monotonic_ns();

	return ns < not_before || ns > now ? now : ns;
}

static int on_box_running(struct keeper *k, struct ward *r, struct cur *c, int *fds)
{
	uint64_t at = cur_u64(c);
	bool is_clone = cur_bool(c);

	(void)fds;
	if (cur_end(c) < 0)
		return -EBADMSG;
	r->result.is_warm = r->boxed->is_ahead &&
			    (is_clone || !r->is_python || k->warm.warmth != WARM_LANGUAGES);
	r->started_mono_ns = plausible_ns(at, 0);
	r->result.started_ns = clock_realtime_ns() - (clock_monotonic_ns() - r->started_mono_ns);
	r->state = RUN_RUNNING;
	ward_set_deadline(r, r->started_mono_ns, r->limits.timeout_ms);
	if (r->cause == CAUSE_CANCEL)
		ward_shorten_deadline(r, clock_monotonic_ns(), r->limits.grace_ms);
	ward_tell_running(k, r);
	return 0;
}

/* The guest and all it started are dead and reaped. */
static int on_box_exited(struct keeper *k, struct ward *r, struct cur *c, int *fds)
{
	struct usage *u = &r->result.usage;
	uint64_t at = cur_u64(c);
	int status = (int)cur_u32(c);
	uint64_t cpu_us = cur_u64(c);
	uint64_t peak = cur_u64(c);
	uint64_t open_files = cur_u64(c);
	uint64_t processes = cur_u64(c);

	(void)fds;
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
	ward_set_deadline(r, r->ended_mono_ns, CAPTURE_MS);
	if (!r->captures)
		ward_finish(k, r);
	return 0;
}

static int on_box_failed(struct keeper *k, struct ward *r, struct cur *c, int *fds)
{
	uint32_t reason = cur_u32(c);
	uint32_t error = cur_u32(c);
	char text[sizeof(r->result.message)];

	(void)k;
	(void)fds;
	cur_str_into(c, text, sizeof(text));
	if (cur_end(c) < 0 || (reason != REASON_PROVISION_FAILED && reason != REASON_EXEC_FAILED))
		return -EBADMSG;
	r->has_failed = true;
	r->result.reason = (enum reason)reason;
	r->result.error = (int32_t)error;
	memcpy(r->result.message, text, sizeof(text));
	return 0;
}

static int on_box_captured(struct keeper *k, struct ward *r, struct cur *c, int *fds)
{
	uint64_t bytes = cur_u64(c);
	uint32_t error = cur_u32(c);
	char text[256];

	(void)fds;
	cur_str_into(c, text, sizeof(text));
	if (cur_end(c) < 0 || !r->captures || error > ERRNO_MAX)
		return -EBADMSG;
	r->result.usage.captured_bytes = bytes;
	r->owes_files = false;
	r->result.error = (int32_t)error;
	if (text[0])
		(void)snprintf(
			r->result.message, sizeof(r->result.message), "capture: %.200s", text);
	ward_finish(k, r); /* init has closed its ends, and has nothing more to say */
	return 0;
}

static int on_box_tty(struct keeper *k, struct ward *r, struct cur *c, int *fds)
{
	if (cur_end(c) < 0 || r->fds[CHANNEL_TTY] >= 0)
		return -EBADMSG;
	r->fds[CHANNEL_TTY] = take_fd(&fds[0]);
	ward_tell_started(k, r);
	ward_drop_duplicates(r);
	return 0;
}

/* Its workspace, once: when the specification was sent, the box had no user yet to whom it
 * could be given. Without a mount in the answer init gives up, and says so. */
static int on_box_asks(struct keeper *k, struct ward *r, struct cur *c, int *fds)
{
	struct err err = { 0 };
	AUTO_FD fd = take_fd(&r->workspace_fd);

	(void)k;
	(void)fds;
	if (cur_end(c) < 0 || fd < 0)
		return -EBADMSG;
	int result = idmap_mount(fd, &r->boxed->box, &err);
	if (result < 0)
		log_warn("run=%s: its workspace: %s", r->id, err.text);
	result = frame_send(r->control.fd, MESSAGE_BOX_WORKSPACE, NULL, &fd, result < 0 ? 0 : 1);
	return result == -EPIPE ? 0 : result;
}

/* What init may say, and when. It is ours, but it lives with the guest. */
static const struct word {
	uint32_t type;
	enum run_state state; /* in which it may say so */
	size_t n_fds;         /* exactly this many descriptors ride along */
	int (*hear)(struct keeper *k, struct ward *r, struct cur *c, int *fds);
} words[] = {
	{ MESSAGE_BOX_TTY, RUN_STARTING, 1, on_box_tty },
	{ MESSAGE_BOX_ASKS, RUN_STARTING, 0, on_box_asks },
	{ MESSAGE_BOX_RUNNING, RUN_STARTING, 0, on_box_running },
	{ MESSAGE_BOX_FAILED, RUN_STARTING, 0, on_box_failed },
	{ MESSAGE_BOX_EXITED, RUN_RUNNING, 0, on_box_exited },
	{ MESSAGE_BOX_CAPTURED, RUN_ENDING, 0, on_box_captured },
};

static int on_box_message(struct keeper *k, struct ward *r, struct frame *f)
{
	struct cur c;

	cur_init(&c, f->data, f->size);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const struct word *w = &words[i];

		if (w->type == f->type && w->state == r->state && w->n_fds == f->n_fds)
			return w->hear(k, r, &c, f->fds);
	}
	return -EBADMSG;
}

static void on_init_gone(struct keeper *k, void *owner, uint32_t events)
{
	struct ward *r = owner;

	(void)events;
	if (!r->closed && box_reap(&r->boxed->box))
		ward_finish(k, r);
}

/* Init closed its socket, so it is about to be gone: usually it is by now. */
static void await_end(struct keeper *k, struct ward *r)
{
	watch_stop(k, &r->control);
	if (box_reap(&r->boxed->box))
		ward_finish(k, r);
	else if (watch_start(k, &r->pid, r->boxed->box.pid_fd, EPOLLIN) < 0)
		abort();
}

static void on_control(struct keeper *k, void *owner, uint32_t events)
{
	struct ward *r = owner;
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
	struct ward *r = owner;

	(void)events;
	if (r->closed || !r->boxed || !cgroup_ack_event(r->boxed->cgroup))
		return;
	/* Where the kernel kills one process only, we end the rest with it. */
	watch_stop(k, &r->memory);
	ward_on_memory(r);
}

void ward_hear_prepare(struct ward *r)
{
	r->control =
		(struct watch){ .fd = -1, .name = "an init", .on_event = on_control, .owner = r };
	r->pid = (struct watch){
		.fd = -1, .name = "the end of an init", .on_event = on_init_gone, .owner = r
	};
	r->memory = (struct watch){
		.fd = -1, .name = "a box without memory", .on_event = on_memory, .owner = r
	};
}
