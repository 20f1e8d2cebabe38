/* The native runtime: boxes, made by the keeper. One connection to its socket, which is
 * greeted, asked for what it holds from before, and then used for everything. When it
 * breaks, another is made:
 *
 *   waiting --connected--> greeting --WELCOME--> listing --RUNS, WORKSPACES--> up
 *      ^----------------------- the connection breaks --------------------------'
 *
 * If it is another keeper that answers then, or none for a while, the one before is gone and
 * with it all of its boxes. If it is the same, which hangs up on whoever does not read for too
 * long, it has everything and tells it again to whoever attaches.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "runtime/runtime.h"

#define RETRY_MS      50
#define RETRY_MAX_MS  1000
#define RUNS_MAX      8192u /* that a keeper may say it holds */
#define UNSENT_MAX    4096u /* messages that wait for the keeper to read */
#define ATTACHING_MAX 16u   /* asked for at once: each is answered with up to three messages */
#define GONE_NS       UINT64_C(5000000000) /* after which a keeper is not waited for */
#define FRAMES_A_TURN 64                   /* so that others get their turn on the loop */
#define ERRNO_MAX     4095u                /* the kernel's */

enum state {
	STATE_WAITING,
	STATE_GREETING,
	STATE_LISTING,
	STATE_UP,
	STATE_CLOSED,
};

struct job {
	struct job *next;
	struct runtime_host *host;
	char id[RUN_ID_SIZE + 1];
	const struct job_events *events;
	void *ctx;
	bool is_over; /* ended, refused or lost: nothing more is told */
	bool is_lost;
	bool needs_attach; /* the keeper has it, and tells somebody else or nobody */
	bool is_attaching;
	bool has_started;
	bool is_canceled;
	bool stdin_is_closed;
};

/* A workspace that is being made. */
struct wish {
	struct wish *next;
	char id[WORKSPACE_ID_SIZE + 1];
	workspace_cb *done;
	void *ctx;
};

struct unsent {
	struct unsent *next;
	uint32_t type;
	struct put payload;
};

struct runtime_host {
	uv_loop_t *loop;
	struct runtime_listener listener;
	char *root;
	enum state state;
	int fd;
	uv_poll_t *poll; /* exists while there is a connection */
	uv_timer_t retry;
	uint64_t retry_ms;
	uint64_t facets;
	char instance[KEEPER_ID_SIZE + 1];
	uint64_t broken_ns; /* since when there is no connection; 0: there is one */
	struct job *jobs;
	unsigned n_attaching;
	struct wish *wishes;
	struct unsent *unsent;
	struct unsent **unsent_end;
	size_t n_unsent;
	char (*runs)[RUN_ID_SIZE + 1]; /* what it held when we came */
	size_t n_runs;
	uint8_t *buffer;
};

static void connect_now(struct runtime_host *h);
static void on_poll(uv_poll_t *poll, int status, int events);

/* --- sending --- */

static void watch(struct runtime_host *h)
{
	int events = UV_READABLE | (h->unsent ? UV_WRITABLE : 0);

	(void)uv_poll_start(h->poll, events, on_poll);
}

static void drop_unsent(struct runtime_host *h)
{
	while (h->unsent) {
		struct unsent *u = h->unsent;

		h->unsent = u->next;
		put_fini(&u->payload);
		free(u);
	}
	h->unsent_end = &h->unsent;
	h->n_unsent = 0;
}

/* Send, or keep it for when the keeper reads again; takes the payload. */
static int say(struct runtime_host *h, uint32_t type, struct put *payload)
{
	int r = put_end(payload);

	if (r == 0 && h->fd < 0)
		r = -EPIPE;
	if (r == 0)
		r = h->unsent ? -EAGAIN : frame_send(h->fd, type, payload, NULL, 0);
	if (r == -EAGAIN && h->n_unsent < UNSENT_MAX) {
		struct unsent *u = xnew(struct unsent);

		u->type = type;
		u->payload = *payload;
		*h->unsent_end = u;
		h->unsent_end = &u->next;
		h->n_unsent++;
		watch(h);
		return 0;
	}
	put_fini(payload);
	return r;
}

static int say_id(struct runtime_host *h, uint32_t type, const char *id)
{
	struct put p;

	put_init(&p, 64);
	put_str(&p, id);
	return say(h, type, &p);
}

static int say_nothing(struct runtime_host *h, uint32_t type)
{
	struct put p;

	put_init(&p, 16);
	return say(h, type, &p);
}

static int flush(struct runtime_host *h)
{
	while (h->unsent) {
		struct unsent *u = h->unsent;
		int r = frame_send(h->fd, u->type, &u->payload, NULL, 0);

		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		h->unsent = u->next;
		if (!h->unsent)
			h->unsent_end = &h->unsent;
		h->n_unsent--;
		put_fini(&u->payload);
		free(u);
	}
	watch(h);
	return 0;
}

/* --- what the keeper says --- */

static struct job *find_job(struct runtime_host *h, const char *id)
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

static void grant(struct wish *w, int code, const char *text)
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
		(void)say_id(h, MESSAGE_ATTACH, j->id);
	}
}

static void attach(struct job *j)
{
	j->needs_attach = true;
	attach_some(j->host);
}

static void end_attaching(struct job *j)
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
		(void)say_id(j->host, MESSAGE_CLOSE_STDIN, j->id);
	if (j->is_canceled)
		(void)say_id(j->host, MESSAGE_CANCEL, j->id);
}

static void tell_lost(struct runtime_host *h)
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
	if (!streq(before, h->instance))
		tell_lost(h);
	int r = say_nothing(h, MESSAGE_LIST);
	return r < 0 ? r : say_nothing(h, MESSAGE_LIST_WORKSPACES);
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
	h->retry_ms = RETRY_MS;
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
	struct job *j = find_job(h, id);
	if (!j || j->is_over)
		return 0; /* it was released meanwhile; the descriptors are closed */
	end_attaching(j);
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
	struct job *j = find_job(h, id);
	if (j && !j->is_over)
		j->events->running(j->ctx, started_ns);
	return 0;
}

static int on_ended(struct runtime_host *h, struct cur *c, struct frame *f)
{
	struct result result;

	(void)f;
	result_get(&result, c);
	if (cur_end(c) < 0)
		return -EBADMSG;
	struct job *j = find_job(h, result.id);
	if (!j)
		return say_id(h, MESSAGE_ACK, result.id); /* nobody wants to know */
	if (!j->is_over) {
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
		grant(w, code, text);
		return 0;
	}
	struct job *j = find_job(h, id);
	if (!j || j->is_over)
		return 0;
	/* A predecessor of ours asked for it and died; the keeper read that after it had told us
	 * what it holds. */
	if (code == -EEXIST && !j->is_attaching) {
		attach(j);
		return 0;
	}
	end_attaching(j);
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
	grant(take_wish(h, id), 0, "");
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
	{ MESSAGE_REFUSED, on_refused },
	{ MESSAGE_WORKSPACE, on_workspace },
};

static int understand(struct runtime_host *h, struct frame *f)
{
	struct cur c;

	cur_init(&c, f->data, f->size);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (words[i].type == f->type)
			return words[i].handle(h, &c, f);
	}
	return -EBADMSG;
}

/* --- the connection --- */

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

static void on_retry(uv_timer_t *timer)
{
	connect_now(timer->data);
}

static void retry_later(struct runtime_host *h)
{
	h->state = STATE_WAITING;
	(void)uv_timer_start(&h->retry, on_retry, h->retry_ms, 0);
	h->retry_ms = h->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : h->retry_ms * 2;
}

/* Wishes are not told again, and are cheap to repeat. */
static void give_up_wishes(struct runtime_host *h)
{
	for (struct wish *w; (w = h->wishes);) {
		h->wishes = w->next;
		grant(w, -ECONNRESET, "the keeper is gone");
	}
}

static void disconnect(struct runtime_host *h)
{
	if (h->poll) {
		(void)uv_poll_stop(h->poll);
		uv_close((uv_handle_t *)h->poll, free_handle);
		h->poll = NULL;
	}
	close_fdp(&h->fd);
	drop_unsent(h);
	h->n_runs = 0;
	h->n_attaching = 0;
	for (struct job *j = h->jobs; j; j = j->next) {
		j->is_attaching = false;
		j->needs_attach = true;
	}
}

static void on_broken(struct runtime_host *h, int r)
{
	bool was_up = h->state == STATE_UP;

	log_warn("the connection to the keeper broke: %s", strerror(-r));
	disconnect(h);
	retry_later(h);
	if (!h->broken_ns)
		h->broken_ns = clock_monotonic_ns();
	if (was_up)
		h->listener.down(h->listener.ctx);
	give_up_wishes(h);
}

static int read_frames(struct runtime_host *h)
{
	for (int i = 0; i < FRAMES_A_TURN && h->fd >= 0; i++) {
		struct frame f;
		int r = frame_recv(h->fd, h->buffer, &f);

		if (r == -EAGAIN)
			return 0;
		if (r <= 0)
			return r == 0 ? -ECONNRESET : r;
		r = understand(h, &f);
		frame_close_fds(&f);
		if (r < 0)
			return r;
	}
	return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct runtime_host *h = poll->data;
	int r = status;

	if (r == 0 && (events & UV_WRITABLE))
		r = flush(h);
	if (r == 0 && (events & UV_READABLE))
		r = read_frames(h);
	if (r < 0 && h->state != STATE_CLOSED && h->poll == poll)
		on_broken(h, r);
}

/* Only who may be our keeper gets to see what we run: ourselves, or root. */
static bool is_trusted(int fd)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static int open_socket(const char *root)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (dir < 0 || fd < 0)
		return -errno;
	/* Through the descriptor, since the path itself may be too long for connect. */
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/keeper.sock", dir);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return is_trusted(fd) ? take_fd(&fd) : -EPERM;
}

static void connect_now(struct runtime_host *h)
{
	int fd = open_socket(h->root);

	if (fd < 0) {
		log_debug("connect to the keeper: %s", strerror(-fd));
		retry_later(h);
		if (h->broken_ns && clock_monotonic_ns() - h->broken_ns > GONE_NS)
			tell_lost(h);
		return;
	}
	h->fd = fd;
	h->poll = xnew(uv_poll_t);
	(void)uv_poll_init(h->loop, h->poll, fd);
	h->poll->data = h;
	h->state = STATE_GREETING;
	watch(h);
	int r = say_nothing(h, MESSAGE_HELLO);
	if (r < 0)
		on_broken(h, r);
}

/* --- the interface --- */

static const char *native_probe(void)
{
	return NULL;
}

static int native_open(uv_loop_t *loop, const struct runtime_options *options,
	const struct runtime_listener *listener, struct runtime_host **ret, struct err *err)
{
	struct runtime_host *h = xnew(struct runtime_host);

	(void)err;
	h->loop = loop;
	h->listener = *listener;
	h->root = xstrdup(options->root);
	h->fd = -1;
	h->retry_ms = RETRY_MS;
	h->unsent_end = &h->unsent;
	h->buffer = xcalloc(1, FRAME_SIZE_MAX);
	(void)uv_timer_init(loop, &h->retry);
	h->retry.data = h;
	*ret = h;
	connect_now(h);
	return 0;
}

static void on_retry_closed(uv_handle_t *handle)
{
	struct runtime_host *h = handle->data;

	while (h->jobs) {
		struct job *j = h->jobs;

		h->jobs = j->next;
		free(j);
	}
	while (h->wishes) {
		struct wish *w = h->wishes;

		h->wishes = w->next;
		free(w);
	}
	free(h->runs);
	free(h->root);
	free(h->buffer);
	free(h);
}

/* What runs goes on in the keeper's care, for the next server. */
static void native_close(struct runtime_host *h)
{
	if (!h)
		return;
	h->state = STATE_CLOSED;
	disconnect(h);
	(void)uv_timer_stop(&h->retry);
	uv_close((uv_handle_t *)&h->retry, on_retry_closed);
}

static bool native_is_up(const struct runtime_host *h)
{
	return h->state == STATE_UP;
}

static uint64_t native_facets(const struct runtime_host *h)
{
	return h->facets;
}

static const char *native_instance(const struct runtime_host *h)
{
	return h->instance;
}

static struct job *new_job(
	struct runtime_host *h, const char *id, const struct job_events *events, void *ctx)
{
	struct job *j = xnew(struct job);

	j->host = h;
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->events = events;
	j->ctx = ctx;
	j->next = h->jobs;
	h->jobs = j;
	return j;
}

static void free_job(struct job *j)
{
	for (struct job **at = &j->host->jobs; *at; at = &(*at)->next) {
		if (*at == j) {
			*at = j->next;
			break;
		}
	}
	free(j);
}

/* A job that nobody wants is one as well, until it is over. */

static void on_unwanted_started(void *ctx, int fds[CHANNEL_COUNT])
{
	struct job *j = ctx;

	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&fds[i]);
	(void)say_id(j->host, MESSAGE_CANCEL, j->id);
}

static void on_unwanted_running(void *ctx, uint64_t started_ns)
{
	(void)ctx;
	(void)started_ns;
}

static void on_unwanted_ended(void *ctx, const struct result *result)
{
	struct job *j = ctx;

	(void)result;
	(void)say_id(j->host, MESSAGE_ACK, j->id);
	free_job(j);
}

static void on_unwanted_refused(void *ctx, enum reason reason, int code, const char *text)
{
	(void)reason;
	(void)code;
	(void)text;
	free_job(ctx);
}

static void on_unwanted_lost(void *ctx)
{
	free_job(ctx);
}

static const struct job_events unwanted = {
	.started = on_unwanted_started,
	.running = on_unwanted_running,
	.ended = on_unwanted_ended,
	.refused = on_unwanted_refused,
	.lost = on_unwanted_lost,
};

static int native_start(struct runtime_host *h, const struct spec *spec,
	const struct job_events *events, void *ctx, struct job **ret)
{
	struct put p;

	if (h->state != STATE_UP)
		return -EAGAIN;
	put_init(&p, SPEC_SIZE_MAX);
	spec_put(spec, &p);
	struct job *j = new_job(h, spec->id, events, ctx);
	int r = say(h, MESSAGE_START, &p);
	if (r < 0) {
		free_job(j);
		return r;
	}
	*ret = j;
	return 0;
}

static int native_adopt(struct runtime_host *h, const char *id, const struct job_events *events,
	void *ctx, struct job **ret)
{
	if (h->state != STATE_UP)
		return -EAGAIN;
	*ret = new_job(h, id, events, ctx);
	attach(*ret);
	return 0;
}

static void native_cancel(struct job *j)
{
	j->is_canceled = true;
	if (!j->is_over)
		(void)say_id(j->host, MESSAGE_CANCEL, j->id);
}

static void native_close_stdin(struct job *j)
{
	j->stdin_is_closed = true;
	if (!j->is_over)
		(void)say_id(j->host, MESSAGE_CLOSE_STDIN, j->id);
}

/* A job that is not over is ended by the keeper, whose word of it then finds nobody. */
static void native_release(struct job *j)
{
	if (!j)
		return;
	if (!j->is_lost)
		(void)say_id(j->host, j->is_over ? MESSAGE_ACK : MESSAGE_CANCEL, j->id);
	end_attaching(j);
	free_job(j);
}

/* Attached to, or we would not hear of its end, which is to be acknowledged. */
static void native_discard(struct runtime_host *h, const char *id)
{
	struct job *j = new_job(h, id, &unwanted, NULL);

	j->ctx = j;
	attach(j);
}

static void native_make_workspace(
	struct runtime_host *h, const char *id, uint64_t bytes, workspace_cb *done, void *ctx)
{
	struct put p;

	if (h->state != STATE_UP) {
		done(ctx, -EAGAIN, "the keeper is not there");
		return;
	}
	struct wish *w = xnew(struct wish);
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
	w->done = done;
	w->ctx = ctx;
	put_init(&p, 128);
	put_str(&p, id);
	put_u64(&p, bytes);
	int r = say(h, MESSAGE_MAKE_WORKSPACE, &p); /* takes it, sent or not */
	if (r < 0) {
		grant(w, r, "the keeper is not there");
		return;
	}
	w->next = h->wishes;
	h->wishes = w;
}

static void native_drop_workspace(struct runtime_host *h, const char *id)
{
	(void)say_id(h, MESSAGE_DROP_WORKSPACE, id);
}

const struct runtime runtime_native = {
	.name = "native",
	.summary = "boxes made by our own keeper; needs nothing but Linux",
	.probe = native_probe,
	.open = native_open,
	.close = native_close,
	.is_up = native_is_up,
	.facets = native_facets,
	.instance = native_instance,
	.start = native_start,
	.adopt = native_adopt,
	.cancel = native_cancel,
	.close_stdin = native_close_stdin,
	.release = native_release,
	.discard = native_discard,
	.make_workspace = native_make_workspace,
	.drop_workspace = native_drop_workspace,
};
