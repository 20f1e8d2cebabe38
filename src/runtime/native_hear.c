/* What the keeper says: of itself, of jobs, and of workspaces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/frame.h"
#include "runtime/native_private.h"

#define RUNS_MAX      8192u /* that a keeper may say it holds */
#define ATTACHING_MAX 16u   /* asked for at once: each is answered with up to three messages */
#define ERRNO_MAX     4095u /* the kernel's */

struct job *native_find_job(struct runtime_host *h, const char *id)
{
	for (struct job *j = h->jobs; j; j = j->next) {
		if (streq(j->id, id))
			return j;
	}
	return NULL;
}

static struct wish *take_wish(struct runtime_host *h, const char *id)
{
	for (struct wish **at = &h->wishes; *at; at = &(*at)->next) {
		struct wish *w = *at;

		if (streq(w->id, id)) {
			*at = w->next;
			return w;
		}
	}
	return NULL;
}

void native_grant(struct wish *w, int code, const char *text)
{
	if (!w)
		return;
	w->done(w->ctx, code, text);
	free(w);
}

/* --- jobs that the keeper has and we do not hear of --- */

/* A few at a time, since it hangs up when its answers do not fit into the socket. */
static void attach_some(struct runtime_host *h)
{
	for (struct job *j = h->jobs; j && h->n_attaching < ATTACHING_MAX; j = j->next) {
		if (!j->needs_attach || j->is_over || h->state != STATE_UP)
			continue;
		j->needs_attach = false;
		j->is_attaching = true;
		h->n_attaching++;
		(void)native_say_id(h, MESSAGE_ATTACH, j->id);
	}
}

void native_attach(struct job *j)
{
	j->needs_attach = true;
	attach_some(j->host);
}

void native_end_attaching(struct job *j)
{
	if (!j->is_attaching)
		return;
	j->is_attaching = false;
	j->host->n_attaching--;
	attach_some(j->host);
}

/* What was said meanwhile, nobody heard. */
static void say_again(struct job *j)
{
	if (j->stdin_is_closed)
		(void)native_say_id(j->host, MESSAGE_CLOSE_STDIN, j->id);
	if (j->last_pause)
		(void)native_say_id(j->host, j->last_pause, j->id);
	if (j->is_canceled)
		(void)native_say_id(j->host, MESSAGE_CANCEL, j->id);
}

void native_tell_lost(struct runtime_host *h)
{
	bool told = true;

	while (told) {
		told = false;
		for (struct job *j = h->jobs; j; j = j->next) {
			if (j->is_over)
				continue;
			j->is_over = j->is_lost = told = true;
			j->events->lost(j->ctx);
			break; /* it may have released this one and others */
		}
	}
}

/* --- what the keeper says, by message --- */

static int say_warm(struct runtime_host *h)
{
	struct put p;

	put_init(&p, FRAME_SIZE_MAX);
	warm_put(&h->warm, &p);
	return native_say(h, MESSAGE_WARM, &p);
}

static int on_welcome(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char before[sizeof(h->instance)];

	(void)f;
	memcpy(before, h->instance, sizeof(before));
	h->facets = cur_u64(c);
	cur_str_into(c, h->instance, sizeof(h->instance));
	if (cur_end(c) < 0 || h->state != STATE_GREETING)
		return -EBADMSG;
	h->state = STATE_LISTING;
	h->broken_ns = 0;
	native_pulse_heard(h, UINT64_MAX, 0, "");
	if (!streq(before, h->instance))
		native_tell_lost(h);
	int r = say_warm(h);
	if (r == 0)
		r = native_say_nothing(h, MESSAGE_LIST);
	return r < 0 ? r : native_say_nothing(h, MESSAGE_LIST_WORKSPACES);
}

static int on_pong(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char step[64];

	(void)f;
	uint64_t n_stalls = cur_u64(c);
	uint64_t ms = cur_u64(c);
	cur_str_into(c, step, sizeof(step));
	if (cur_end(c) < 0)
		return -EBADMSG;
	native_pulse_heard(h, n_stalls, ms, step);
	/* What it holds may be less than before. */
	if (h->state != STATE_SILENT)
		return 0;
	h->state = STATE_LISTING;
	int r = native_say_nothing(h, MESSAGE_LIST);
	return r < 0 ? r : native_say_nothing(h, MESSAGE_LIST_WORKSPACES);
}

static int on_runs(struct runtime_host *h, struct cur *c, struct frame *f)
{
	uint32_t n = cur_u32(c);

	(void)f;
	if (n > RUNS_MAX || h->state != STATE_LISTING)
		return -EBADMSG;
	free(h->runs);
	h->runs = xcalloc(n + 1, sizeof(*h->runs));
	h->n_runs = n;
	for (uint32_t i = 0; i < n; i++) {
		cur_str_into(c, h->runs[i], sizeof(h->runs[i]));
		(void)cur_u32(c);
	}
	return cur_end(c);
}

static int on_workspaces(struct runtime_host *h, struct cur *c, struct frame *f)
{
	uint32_t n = cur_u32(c);

	(void)f;
	if (n > RUNS_MAX || h->state != STATE_LISTING)
		return -EBADMSG;
	AUTO_FREE char(*ids)[WORKSPACE_ID_SIZE + 1] = xcalloc(n + 1, sizeof(*ids));
	for (uint32_t i = 0; i < n; i++)
		cur_str_into(c, ids[i], sizeof(ids[i]));
	if (cur_end(c) < 0)
		return -EBADMSG;
	h->state = STATE_UP;
	h->retry_ms = NATIVE_RETRY_MS;
	attach_some(h);
	h->listener.up(h->listener.ctx, (const char(*)[RUN_ID_SIZE + 1]) h->runs, h->n_runs,
		(const char(*)[WORKSPACE_ID_SIZE + 1]) ids, n);
	return 0;
}

static int on_started(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char id[RUN_ID_SIZE + 1];
	int fds[CHANNEL_COUNT];
	size_t n = 0;

	cur_str_into(c, id, sizeof(id));
	uint32_t mask = cur_u32(c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	struct job *j = native_find_job(h, id);
	if (!j || j->is_over)
		return 0; /* it was released meanwhile; the descriptors are closed */
	native_end_attaching(j);
	if (j->has_started) {
		say_again(j);
		return 0; /* its owner has the descriptors */
	}
	j->has_started = true;
	for (int i = 0; i < CHANNEL_COUNT; i++) {
		bool is_there = (mask & (1u << i)) && n < f->n_fds;

		fds[i] = is_there ? take_fd(&f->fds[n++]) : -1;
	}
	j->events->started(j->ctx, fds);
	return 0;
}

static int on_running(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char id[RUN_ID_SIZE + 1];

	(void)f;
	cur_str_into(c, id, sizeof(id));
	uint64_t started_ns = cur_u64(c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	struct job *j = native_find_job(h, id);
	if (j && !j->is_over)
		j->events->running(j->ctx, started_ns);
	return 0;
}

static int on_used(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char id[RUN_ID_SIZE + 1];

	(void)f;
	cur_str_into(c, id, sizeof(id));
	uint64_t cpu_us = cur_u64(c);
	bool is_frozen = cur_bool(c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	struct job *j = native_find_job(h, id);
	if (j && !j->is_over && j->events->used)
		j->events->used(j->ctx, cpu_us, is_frozen);
	return 0;
}

static int on_ended(struct runtime_host *h, struct cur *c, struct frame *f)
{
	struct result result;

	(void)f;
	result_get(&result, c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	struct job *j = native_find_job(h, result.id);
	if (!j)
		return native_say_id(h, MESSAGE_ACK, result.id); /* nobody wants to know */
	if (!j->is_over) {
		native_end_attaching(j);
		j->is_over = true;
		j->events->ended(j->ctx, &result);
	}
	return 0;
}

static int on_refused(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char id[RUN_ID_SIZE + 1];
	char text[256];

	(void)f;
	cur_str_into(c, id, sizeof(id));
	uint32_t error = cur_u32(c);
	uint32_t reason = cur_u32(c);
	cur_str_into(c, text, sizeof(text));
	if (cur_end(c) < 0 || reason >= REASON_COUNT || error > ERRNO_MAX)
		return -EBADMSG;
	int code = error ? -(int)error : -EIO;
	struct wish *w = take_wish(h, id);
	if (w) {
		native_grant(w, code, text);
		return 0;
	}
	struct job *j = native_find_job(h, id);
	if (!j || j->is_over)
		return 0;
	/* A predecessor of ours asked for it and died; the keeper read that after it had told us
	 * what it holds. */
	if (code == -EEXIST && !j->is_attaching) {
		native_attach(j);
		return 0;
	}
	native_end_attaching(j);
	j->is_over = true;
	j->events->refused(j->ctx, (enum reason)reason, code, text);
	return 0;
}

static int on_workspace(struct runtime_host *h, struct cur *c, struct frame *f)
{
	char id[WORKSPACE_ID_SIZE + 1];

	(void)f;
	cur_str_into(c, id, sizeof(id));
	if (cur_end(c) < 0)
		return -EBADMSG;
	native_grant(take_wish(h, id), 0, "");
	return 0;
}

static int on_warmth(struct runtime_host *h, struct cur *c, struct frame *f)
{
	struct warm_state state;

	(void)f;
	warm_state_get(&state, c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	if (h->listener.warmth)
		h->listener.warmth(h->listener.ctx, &state);
	return 0;
}

static const struct {
	uint32_t type;
	int (*handle)(struct runtime_host *h, struct cur *c, struct frame *f);
} words[] = {
	{ MESSAGE_WELCOME, on_welcome },
	{ MESSAGE_RUNS, on_runs },
	{ MESSAGE_WORKSPACES, on_workspaces },
	{ MESSAGE_STARTED, on_started },
	{ MESSAGE_RUNNING, on_running },
	{ MESSAGE_ENDED, on_ended },
	{ MESSAGE_USED, on_used },
	{ MESSAGE_REFUSED, on_refused },
	{ MESSAGE_WORKSPACE, on_workspace },
	{ MESSAGE_WARMTH, on_warmth },
	{ MESSAGE_PONG, on_pong },
};

int native_understand(struct runtime_host *h, struct frame *f)
{
	struct cur c;

	cur_init(&c, f->data, f->size);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (words[i].type == f->type)
			return words[i].handle(h, &c, f);
	}
	return -EBADMSG;
}
