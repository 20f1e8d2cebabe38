/* What a client may say: the whole attack surface of the keeper is this table. A
 * message that is unknown, comes at the wrong time, carries descriptors or is not
 * well-formed means that the client is broken or hostile, and it is dropped. A
 * well-formed request that can not be granted gets an answer. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

/* A workspace's size, as the limit of a run has it. */
#define WORKSPACE_BYTES_MIN (UINT64_C(64) << 10)
#define WORKSPACE_BYTES_MAX (UINT64_C(1) << 46)

static void refuse(
	struct keeper *k, struct peer *p, const char *id, enum reason reason, const struct err *err)
{
	struct put out;

	put_init(&out, FRAME_SIZE_MAX);
	put_str(&out, id);
	put_u32(&out, (uint32_t)-err->code);
	put_u32(&out, (uint32_t)reason);
	put_str(&out, err->text);
	peer_send(k, p, MESSAGE_REFUSED, &out, NULL, 0);
	put_fini(&out);
}

/* The run a message names, if it is this peer's to command. Someone else's is
 * answered as if it did not exist. */
static struct ward *find_own(struct keeper *k, const struct peer *p, const char *id)
{
	struct ward *r = ward_find(k, id);

	return r && (r->owner == p->uid || p->uid == 0) ? r : NULL;
}

static void refuse_unknown(struct keeper *k, struct peer *p, const char *id)
{
	struct err err;

	(void)err_set(&err, -ENOENT, "there is no run %s", id);
	refuse(k, p, id, REASON_INFRASTRUCTURE_ERROR, &err);
}

/* Anybody whom the socket let in may ask what is enforced here. */
static int handle_hello(struct keeper *k, struct peer *p, struct cur *c)
{
	struct put out;

	if (cur_end(c) < 0)
		return -EBADMSG;
	p->phase = PEER_READY;
	put_init(&out, 64);
	put_u64(&out, k->facets);
	put_str(&out, k->id);
	peer_send(k, p, MESSAGE_WELCOME, &out, NULL, 0);
	put_fini(&out);
	return 0;
}

/* Starting runs is what the keeper is for; it decides nothing about who may run
 * what, only that no run can reach out of its box. */
static int handle_start(struct keeper *k, struct peer *p, struct cur *c)
{
	struct err err = { 0 };
	CLEANUP(spec_fini) struct spec spec;
	enum reason reason = REASON_POLICY_DENIED;

	spec_get(&spec, c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	int r = spec_check(&spec, &err);
	if (r == 0)
		r = ward_start(k, p, &spec, &reason, &err);
	if (r < 0)
		refuse(k, p, spec.id, reason, &err);
	return 0;
}

/* The run that a message is about, once all of it was read and was good. There may be
 * none that is the peer's, which is answered here. */
static int take_run(
	struct keeper *k, struct peer *p, const struct cur *c, const char *id, struct ward **ret)
{
	if (cur_end(c) < 0)
		return -EBADMSG;
	*ret = find_own(k, p, id);
	if (!*ret)
		refuse_unknown(k, p, id);
	return 0;
}

/* A signal goes to the guest's own process group, from inside its box. */
static int handle_signal(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;

	cur_str_into(c, id, sizeof(id));
	uint32_t sig = cur_u32(c);
	if (sig == 0 || sig > (uint32_t)SIGRTMAX)
		return -EBADMSG;
	int r = take_run(k, p, c, id, &run);
	if (run)
		ward_signal(k, run, (int)sig);
	return r;
}

/* Whoever started a run may end it. */
static int handle_cancel(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;

	cur_str_into(c, id, sizeof(id));
	int r = take_run(k, p, c, id, &run);
	if (run)
		ward_cancel(k, run, CAUSE_CANCEL);
	return r;
}

/* A client that died and came back gets the descriptors of its run again. */
static int handle_attach(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;
	struct err err = { 0 };

	cur_str_into(c, id, sizeof(id));
	int r = take_run(k, p, c, id, &run);
	if (run && ward_attach(k, run, p, &err) < 0)
		refuse(k, p, id, REASON_INFRASTRUCTURE_ERROR, &err);
	return r;
}

/* ... and learns first which runs it had. */
static int handle_list(struct keeper *k, struct peer *p, struct cur *c)
{
	struct put out;
	uint32_t n = 0;

	if (cur_end(c) < 0)
		return -EBADMSG;
	for (const struct ward *r = k->runs; r; r = r->next)
		n += r->owner == p->uid || p->uid == 0;
	put_init(&out, FRAME_SIZE_MAX);
	put_u32(&out, n);
	for (const struct ward *r = k->runs; r; r = r->next) {
		if (r->owner != p->uid && p->uid != 0)
			continue;
		put_str(&out, r->id);
		put_u32(&out, (uint32_t)r->state);
	}
	peer_send(k, p, MESSAGE_RUNS, &out, NULL, 0);
	put_fini(&out);
	return 0;
}

/* The result is safe elsewhere: it need not be kept here. */
static int handle_ack(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;

	cur_str_into(c, id, sizeof(id));
	int r = take_run(k, p, c, id, &run);
	if (run && run->state != RUN_ENDED)
		return -EBADMSG; /* nothing was reported that could be acknowledged */
	if (run)
		ward_close(k, run);
	return r;
}

/* The keeper's duplicate of the guest's stdin would hold it open for ever. */
static int handle_close_stdin(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;

	cur_str_into(c, id, sizeof(id));
	int r = take_run(k, p, c, id, &run);
	if (run)
		close_fdp(&run->fds[CHANNEL_STDIN]);
	return r;
}

/* The processor time that its box has used until now, believed of the kernel alone; before or after
 * nothing in there executes any more. */
static int answer_usage(
	struct keeper *k, struct peer *p, struct cur *c, void (*first)(struct ward *))
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;

	cur_str_into(c, id, sizeof(id));
	int r = take_run(k, p, c, id, &run);
	if (run && first)
		first(run);
	if (run)
		ward_tell_used(k, run);
	return r;
}

static int handle_freeze(struct keeper *k, struct peer *p, struct cur *c)
{
	return answer_usage(k, p, c, ward_freeze);
}

static int handle_usage(struct keeper *k, struct peer *p, struct cur *c)
{
	return answer_usage(k, p, c, NULL);
}

static int handle_thaw(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[RUN_ID_SIZE + 1];
	struct ward *run = NULL;

	cur_str_into(c, id, sizeof(id));
	int r = take_run(k, p, c, id, &run);
	if (run)
		ward_thaw(run);
	return r;
}

/* A place for files that outlives the run which made them; it costs what is in it, up to
 * its size, and there are so many and no more. */
static int handle_make_workspace(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[WORKSPACE_ID_SIZE + 1];
	struct err err = { 0 };
	struct put out;

	cur_str_into(c, id, sizeof(id));
	uint64_t bytes = cur_u64_max(c, WORKSPACE_BYTES_MAX);
	if (cur_end(c) < 0 || !str_is_hex(id, WORKSPACE_ID_SIZE) || bytes < WORKSPACE_BYTES_MIN)
		return -EBADMSG;
	if (workspaces_add(k, id, p->uid, bytes, &err) < 0) {
		refuse(k, p, id, REASON_PROVISION_FAILED, &err);
		return 0;
	}
	put_init(&out, 64);
	put_str(&out, id);
	peer_send(k, p, MESSAGE_WORKSPACE, &out, NULL, 0);
	put_fini(&out);
	return 0;
}

/* Whoever made it may give it up. That it is gone already is no answer worth waiting for. */
static int handle_drop_workspace(struct keeper *k, struct peer *p, struct cur *c)
{
	char id[WORKSPACE_ID_SIZE + 1];

	cur_str_into(c, id, sizeof(id));
	if (cur_end(c) < 0)
		return -EBADMSG;
	struct workspace *w = workspaces_find(k, id, p->uid);
	if (w)
		workspaces_drop(k, w);
	return 0;
}

/* A client that died and came back learns which of its workspaces are still there. */
static int handle_list_workspaces(struct keeper *k, struct peer *p, struct cur *c)
{
	struct put out;
	uint32_t n = 0;

	if (cur_end(c) < 0)
		return -EBADMSG;
	for (const struct workspace *w = k->workspaces; w; w = w->next)
		n += w->owner == p->uid || p->uid == 0;
	put_init(&out, FRAME_SIZE_MAX);
	put_u32(&out, n);
	for (const struct workspace *w = k->workspaces; w; w = w->next) {
		if (w->owner == p->uid || p->uid == 0)
			put_str(&out, w->id);
	}
	peer_send(k, p, MESSAGE_WORKSPACES, &out, NULL, 0);
	put_fini(&out);
	return 0;
}

/* Who serves many decides what is worth having ready. */
static int handle_warm(struct keeper *k, struct peer *p, struct cur *c)
{
	struct warm w;

	warm_get(&w, c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	p->hears_warmth = true;
	boxes_set_warm(k, &w);
	return 0;
}

/* Whoever relies on this loop wants to know whether it goes round, and if it did not, why. */
static int handle_ping(struct keeper *k, struct peer *p, struct cur *c)
{
	struct put out;

	if (cur_end(c) < 0)
		return -EBADMSG;
	put_init(&out, 256);
	put_u64(&out, k->pace.n_stalls);
	put_u64(&out, k->pace.last_ms);
	put_str(&out, k->pace.last_step ? k->pace.last_step : "");
	peer_send(k, p, MESSAGE_PONG, &out, NULL, 0);
	put_fini(&out);
	return 0;
}

static const struct rule {
	const char *name;
	unsigned phases; /* when a peer may send it */
	int (*handle)(struct keeper *k, struct peer *p, struct cur *c);
} rules[] = {
	[MESSAGE_HELLO] = { "hello", PEER_NEW, handle_hello },
	[MESSAGE_START] = { "start", PEER_READY, handle_start },
	[MESSAGE_SIGNAL] = { "signal", PEER_READY, handle_signal },
	[MESSAGE_CANCEL] = { "cancel", PEER_READY, handle_cancel },
	[MESSAGE_ATTACH] = { "attach", PEER_READY, handle_attach },
	[MESSAGE_LIST] = { "list", PEER_READY, handle_list },
	[MESSAGE_ACK] = { "ack", PEER_READY, handle_ack },
	[MESSAGE_CLOSE_STDIN] = { "close_stdin", PEER_READY, handle_close_stdin },
	[MESSAGE_MAKE_WORKSPACE] = { "make_workspace", PEER_READY, handle_make_workspace },
	[MESSAGE_DROP_WORKSPACE] = { "drop_workspace", PEER_READY, handle_drop_workspace },
	[MESSAGE_FREEZE] = { "freeze", PEER_READY, handle_freeze },
	[MESSAGE_THAW] = { "thaw", PEER_READY, handle_thaw },
	[MESSAGE_USAGE] = { "usage", PEER_READY, handle_usage },
	[MESSAGE_WARM] = { "warm", PEER_READY, handle_warm },
	[MESSAGE_PING] = { "ping", PEER_READY, handle_ping },
	[MESSAGE_LIST_WORKSPACES] = { "list_workspaces", PEER_READY, handle_list_workspaces },
};

int rules_dispatch(struct keeper *k, struct peer *p, struct frame *f)
{
	struct cur c;

	if (f->type >= ARRAY_SIZE(rules) || !rules[f->type].handle)
		return -EBADMSG;
	const struct rule *rule = &rules[f->type];
	/* No message of a client carries descriptors: all of them are made here. */
	if (!(rule->phases & p->phase) || f->n_fds != 0)
		return -EBADMSG;
	k->pace.step = rule->name;
	cur_init(&c, f->data, f->size);
	int r = rule->handle(k, p, &c);
	if (r < 0)
		log_debug("message %s: %s", rule->name, strerror(-r));
	return r;
}
