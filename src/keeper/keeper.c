#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/profile.h"
#include "box/root.h"
#include "image/image.h"
#include "keeper/keeper_private.h"

/* For how long nothing must have happened to call it quiet. */
#define QUIET_MS 2

/* How long we do not listen when there are no descriptors left, and how often we
 * tell of strangers. */
#define DEAF_MS    100
#define DEAF_NS    (UINT64_C(1000000) * DEAF_MS)
#define MENTION_NS UINT64_C(1000000000)

/* How often unused images are looked for. */
#define EXPIRE_MS 30000

/* One that was started for a server does not stay for ever without it: not for long when it
 * holds nothing, and with workspaces, whose server may come back, until their sessions have
 * expired. A directory that was removed can not be come back to. Never while there are runs. */
#define IDLE_NS   (UINT64_C(10) * 1000000000)
#define IDLE_MS   1000
#define NS_PER_MS UINT64_C(1000000)

/* How often we look whether a template that is missing can be started. */
#define TEMPLATE_MS 500

int watch_start(struct keeper *k, struct watch *w, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = w };

	if (epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	w->fd = fd;
	return 0;
}

void watch_stop(struct keeper *k, struct watch *w)
{
	if (w->fd < 0)
		return;
	(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->fd = -1;
}

static bool may_connect(const struct keeper *k, const struct ucred *peer)
{
	return peer->uid == k->uid || peer->uid == 0;
}

static int read_peer(int fd, struct ucred *ret)
{
	socklen_t size = sizeof(*ret);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) < 0 ? -errno : 0;
}

/* Strangers can knock as often as they like; we mention it once a second. */
static void mention(struct keeper *k, const char *event, uid_t uid)
{
	uint64_t now = clock_monotonic_ns();

	k->n_unmentioned++;
	if (k->mentioned_ns && now - k->mentioned_ns < MENTION_NS)
		return;
	log_warn("event=%s uid=%u times=%llu", event, (unsigned)uid,
		(unsigned long long)k->n_unmentioned);
	k->mentioned_ns = now;
	k->n_unmentioned = 0;
}

static void on_connect(struct keeper *k, void *owner, uint32_t events)
{
	struct ucred peer = { 0 };
	AUTO_FD fd = accept4(k->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)owner;
	(void)events;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		/* It stays readable: without a pause we would do nothing else. */
		k->deaf_fd = k->listen.fd;
		watch_stop(k, &k->listen);
		k->deaf_until_ns = clock_monotonic_ns() + DEAF_NS;
		return;
	}
	if (fd < 0 || k->stopping)
		return;
	if (read_peer(fd, &peer) < 0 || !may_connect(k, &peer))
		mention(k, "denied_client", peer.uid);
	else if (k->n_peers >= PEERS_MAX)
		mention(k, "too_many_clients", peer.uid);
	else if (peer_add(k, fd, peer.uid) == 0)
		(void)take_fd(&fd);
}

/* Listen again after a pause for want of descriptors. */
static void stop_being_deaf(struct keeper *k)
{
	if (k->deaf_fd < 0 || clock_monotonic_ns() < k->deaf_until_ns)
		return;
	if (watch_start(k, &k->listen, k->deaf_fd, EPOLLIN) == 0)
		k->deaf_fd = -1;
	else
		k->deaf_until_ns = clock_monotonic_ns() + DEAF_NS;
}

static void on_signal(struct keeper *k, void *owner, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)owner;
	(void)events;
	while (read(k->signals.fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		log_info("stopping on signal %u", info.ssi_signo);
		k->stopping = true;
	}
}

static int watch_signals(struct keeper *k, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGQUIT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	/* Ignored, as who started us may have left it, it would hide how a box ends. */
	(void)signal(SIGCHLD, SIG_DFL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_errno(err, "watch signals");
	int r = watch_start(k, &k->signals, fd, EPOLLIN);
	return r < 0 ? err_set(err, r, "watch signals") : 0;
}

/* Milliseconds until the next deadline, rounded up; -1 for none. */
static int next_timeout(const struct keeper *k)
{
	uint64_t first = UINT64_MAX;
	uint64_t now = clock_monotonic_ns();

	for (const struct ward *r = k->runs; r; r = r->next) {
		if (r->deadline_ns && r->deadline_ns < first)
			first = r->deadline_ns;
	}
	if (first == UINT64_MAX)
		return -1;
	if (first <= now)
		return 0;
	uint64_t ms = (first - now + 999999) / 1000000;
	return ms > 3600000 ? 3600000 : (int)ms;
}

static void check_deadlines(struct keeper *k)
{
	uint64_t now = clock_monotonic_ns();

	for (struct ward *r = k->runs, *next; r; r = next) {
		next = r->next;
		if (r->deadline_ns && r->deadline_ns <= now)
			ward_on_deadline(k, r);
	}
}

static void bury_the_dead(struct keeper *k)
{
	for (struct ward *r; (r = k->dead_runs);) {
		k->dead_runs = r->next;
		free(r);
	}
	for (struct peer *p; (p = k->dead_peers);) {
		k->dead_peers = p->next;
		free(p);
	}
}

static int earlier(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* How long to sleep at most: until a deadline, or until housekeeping goes on. */
static int sleep_ms(const struct keeper *k, bool more_to_do)
{
	int timeout = earlier(earlier(next_timeout(k), boxes_news_ms(k)), boxes_surplus_ms(k));
	int longest = more_to_do             ? QUIET_MS
		      : k->deaf_fd >= 0      ? DEAF_MS
		      : templates_pending(k) ? TEMPLATE_MS
		      : k->idle_since_ns     ? IDLE_MS
					     : EXPIRE_MS;

	return earlier(timeout, longest);
}

/* For how long it stays without clients and runs. */
static uint64_t idle_longest_ns(const struct keeper *k)
{
	if (!k->workspaces || state_is_gone(k))
		return IDLE_NS;
	if (k->workspaces_ns == 0)
		return UINT64_MAX;
	return k->workspaces_ns > IDLE_NS ? k->workspaces_ns : IDLE_NS;
}

static void check_idle(struct keeper *k)
{
	uint64_t now = clock_monotonic_ns();

	if (!k->ends_when_idle || k->peers || k->runs) {
		k->idle_since_ns = 0;
		return;
	}
	if (!k->idle_since_ns)
		k->idle_since_ns = now;
	if (now - k->idle_since_ns >= idle_longest_ns(k)) {
		log_info("nobody needs this keeper any more");
		k->stopping = true;
	}
}

/* Nothing waits: the housekeeping, and then sleep until something happens. */
static int sleep_for_events(struct keeper *k, struct epoll_event *events)
{
	pace_step(&k->pace, "housekeeping", clock_monotonic_ns());
	int timeout = sleep_ms(k, boxes_tend(k, k->is_quiet));
	pace_sleep(&k->pace, clock_monotonic_ns());
	int n = epoll_wait(k->epoll_fd, events, EVENTS_MAX, timeout);
	pace_wake(&k->pace, timeout, clock_monotonic_ns());
	return n;
}

/* One turn: first what is waiting; only when nothing is, the housekeeping. */
static void turn(struct keeper *k)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(k->epoll_fd, events, EVENTS_MAX, 0);

	if (n == 0)
		n = sleep_for_events(k, events);
	k->is_quiet = n == 0;
	for (int i = 0; i < n; i++) {
		struct watch *w = events[i].data.ptr;

		if (w->fd < 0)
			continue;
		pace_step(&k->pace, w->name, clock_monotonic_ns());
		w->on_event(k, w->owner, events[i].events);
	}
	pace_step(&k->pace, "deadlines", clock_monotonic_ns());
	check_deadlines(k);
	stop_being_deaf(k);
	check_idle(k);
	pace_step(&k->pace, "old images", clock_monotonic_ns());
	images_expire(k);
	pace_step(&k->pace, "old boxes", clock_monotonic_ns());
	boxes_relieve(k);
	bury_the_dead(k);
}

static int load_profile(const char *path, char **ret, size_t *ret_size, struct err *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "open the seccomp profile %s", path);
	int r = fd_read_all(fd, PROFILE_SIZE_MAX, ret, ret_size);
	return r < 0 ? err_set(err, r, "read the seccomp profile %s", path) : 0;
}

static int prepare_host(struct keeper *k, const char *profile_path, struct err *err)
{
	AUTO_FREE char *profile = NULL;
	size_t size = 0;
	struct root *root = NULL;
	struct spec standard;
	bool serves_self = k->uid == geteuid();
	int r = profile_path ? load_profile(profile_path, &profile, &size, err) : 0;

	if (r == 0)
		r = box_host_init(&k->host, profile, size, err);
	if (r < 0)
		return r;
	if (serves_self)
		k->uid = geteuid(); /* in a namespace it may have another number */
	k->facets = k->host.facets | cgroup_host_facets(k->cgroups);
	/* A plain user's keeper is in another mount namespace only now, and can take
	 * nothing into a box that it opened before. */
	r = image_open_dir(k->root_dir, &k->images_fd, err);
	if (r < 0)
		return r;
	workspace_home_init(&k->workspace_home, &k->host, k->root_dir);
	/* Assembled now, so that the first run does not wait for it. */
	r = images_find_root(k, "host", &root, err);
	k->host_root = root;
	spec_init(&standard);
	k->favourite_limits = standard.limits;
	ward_count_init(k, &k->favourite_limits);
	if (k->makes_ready)
		k->favourite = root;
	return r;
}

static void on_lifeline(struct keeper *k, void *owner, uint32_t events)
{
	(void)owner;
	(void)events;
	k->stopping = true;
}

/* Who started us has said that it needs us for longer, or is gone before that. */
static void on_trial(struct keeper *k, void *owner, uint32_t events)
{
	char byte;

	(void)owner;
	(void)events;
	if (recv(k->trial.fd, &byte, 1, MSG_DONTWAIT) != 1)
		k->stopping = true;
	int fd = k->trial.fd;
	watch_stop(k, &k->trial);
	close_fdp(&fd);
}

static int accept_clients(struct keeper *k, const struct keeper_options *options, struct err *err)
{
	int fd = options->listen_fd;
	int r = fd < 0 ? state_listen(k, &fd, err) : fd_set_nonblock(fd, true);

	if (r < 0)
		return fd < 0 ? r : err_set(err, r, "use descriptor %d", fd);
	r = watch_start(k, &k->listen, fd, EPOLLIN);
	if (r == 0 && options->lifeline_fd >= 0)
		r = watch_start(k, &k->lifeline, options->lifeline_fd, 0);
	if (r == 0 && options->trial_fd >= 0)
		r = watch_start(k, &k->trial, options->trial_fd, EPOLLIN);
	return r < 0 ? err_set(err, r, "watch for clients") : 0;
}

/* Inherited descriptors are not for boxes to inherit in turn. */
static void own_inherited(const struct keeper_options *options)
{
	if (options->listen_fd >= 0)
		(void)fcntl(options->listen_fd, F_SETFD, FD_CLOEXEC);
	if (options->lifeline_fd >= 0)
		(void)fcntl(options->lifeline_fd, F_SETFD, FD_CLOEXEC);
	if (options->trial_fd >= 0)
		(void)fcntl(options->trial_fd, F_SETFD, FD_CLOEXEC);
}

static void close_all(struct keeper *k)
{
	while (k->runs)
		ward_close(k, k->runs);
	while (k->peers)
		peer_close(k, k->peers);
	bury_the_dead(k);
	boxes_fini(k);
	workspaces_drop_all(k);
	workspace_home_fini(&k->workspace_home);
	state_close(k);
	for (struct root *root; (root = k->roots);) {
		k->roots = root->next;
		root_free(root);
	}
	box_host_fini(&k->host);
	close_fdp(&k->listen.fd);
	close_fdp(&k->deaf_fd);
	close_fdp(&k->signals.fd);
	close_fdp(&k->lifeline.fd);
	close_fdp(&k->trial.fd);
	close_fdp(&k->epoll_fd);
	free(k->buffer);
}

int keeper_serve(const struct keeper_options *options, struct err *err)
{
	struct keeper k = {
		KEEPER_FRESH,
		.uid = options->uid,
		.ends_when_idle = options->ends_when_idle,
		.workspaces_ns = options->workspaces_ms * NS_PER_MS,
		.deaf_fd = -1,
		.listen = { .fd = -1, .name = "a new client", .on_event = on_connect },
		.signals = { .fd = -1, .name = "a signal", .on_event = on_signal },
		.lifeline = { .fd = -1, .name = "the lifeline", .on_event = on_lifeline },
		.trial = { .fd = -1, .name = "a trial", .on_event = on_trial },
		.favours = SEAL_PLAIN,
		.warm_library = options->warm_library,
		.warm_library_size = options->warm_library_size,
	};

	/* Started through /proc/self/exe, it would be called "exe". */
	(void)prctl(PR_SET_NAME, "belljar-keeper");
	own_inherited(options);
	/* Each run takes some ten descriptors, and the usual limit is 1024. */
	fd_raise_limit();
	/* A keeper of somebody's own may be wanted for one run only. */
	k.makes_ready = options->lifeline_fd < 0;
	k.buffer = xcalloc(1, FRAME_SIZE_MAX);
	k.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int r = k.epoll_fd < 0 ? err_errno(err, "make an epoll set") : 0;
	if (r == 0)
		r = watch_signals(&k, err);
	if (r == 0)
		r = state_open(&k, options->root, err);
	if (r == 0)
		r = prepare_host(&k, options->profile, err);
	if (r == 0)
		r = accept_clients(&k, options, err);
	while (r == 0 && !k.stopping)
		turn(&k);
	close_all(&k);
	return r;
}
