/* belljar stop: ends the server of a state directory, in order, and then its keeper, and says what
 * was lost with them. Whom to end it learns from their sockets, which only they can listen on. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/listener.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/option.h"
#include "client/connection.h"
#include "core/beacon.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/spec.h"

#define WAIT_MS        60000 /* for the server, which may be waiting for runs */
#define KEEPER_WAIT_MS 10000
#define ANSWER_SEC     5
#define LOOK_US        20000
#define SHOWN_MAX      10u /* ids that are named; of more it is said how many */

#define NS_PER_MS UINT64_C(1000000)

struct values {
	const char *root;
	uint64_t timeout_ms;
};

static const struct option_row options[] = {
	{ "--root", 0, OPTION_STRING, offsetof(struct values, root), "DIR",
		"state directory (default: $BELLJAR_ROOT or the usual place)" },
	{ "--timeout", 0, OPTION_DURATION, offsetof(struct values, timeout_ms), "TIME",
		"kill a server that has not ended by then (default 60s)" },
	{ 0 },
};

/* A process that is to end. The descriptor is of the process that listens, and of no later one
 * with its number. */
struct target {
	const char *what;
	pid_t pid;
	int fd;
};

/* What a keeper holds. */
struct holdings {
	bool is_known;
	size_t n_runs;
	size_t n_workspaces;
	char runs[SHOWN_MAX][RUN_ID_SIZE + 1];
	char workspaces[SHOWN_MAX][WORKSPACE_ID_SIZE + 1];
};

static void target_fini(struct target *t)
{
	close_fdp(&t->fd);
}

/* Who listens at the other end of `socket`. */
static int target_open(struct target *t, const char *what, int socket, struct err *err)
{
	struct target found = { .what = what, .fd = -1 };
	int r = listener_open(socket, &found.fd, &found.pid);

	if (r == -EXDEV)
		return err_set(err, r,
			"the %s can not be seen from here: stop it where it was started", what);
	if (r < 0)
		return err_set(err, r, "find the %s: %s", what, strerror(-r));
	*t = found;
	return 0;
}

static int send_signal(const struct target *t, int sig, struct err *err)
{
	if (syscall(SYS_pidfd_send_signal, t->fd, sig, NULL, 0) == 0 || errno == ESRCH)
		return 0;
	if (errno == EPERM)
		return err_set(err, -EPERM,
			"no permission to end the %s (pid %d): it belongs to another user; use sudo belljar stop",
			t->what, t->pid);
	return err_errno(err, "end the %s (pid %d)", t->what, t->pid);
}

static bool has_ended(const struct target *t, uint64_t wait_ms)
{
	struct pollfd p = { .fd = t->fd, .events = POLLIN };

	return poll(&p, 1, wait_ms > INT32_MAX ? INT32_MAX : (int)wait_ms) == 1;
}

/* A guardian would start another keeper in place of one that was killed. */
static void kill_guardian(const struct target *keeper)
{
	static const char args[] = "belljar\0keeper\0--respawn";
	char path[40];
	char text[512];
	int parent = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", keeper->pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return;
	const char *rest = strrchr(text, ')');
	if (!rest || sscanf(rest, ") %*c %d", &parent) != 1 || parent <= 1)
		return;
	AUTO_FD fd = (int)syscall(SYS_pidfd_open, parent, 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", parent);
	AUTO_FD line = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || line < 0 || fd_read_full(line, text, sizeof(args)) != sizeof(args) ||
		memcmp(text, args, sizeof(args)) != 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static int end_target(const struct target *t, uint64_t wait_ms, struct err *err)
{
	int r = send_signal(t, SIGTERM, err);

	if (r < 0)
		return r;
	if (has_ended(t, wait_ms)) {
		printf("ended the %s (pid %d)\n", t->what, t->pid);
		return 0;
	}
	kill_guardian(t);
	r = send_signal(t, SIGKILL, err);
	if (r < 0)
		return r;
	if (!has_ended(t, KEEPER_WAIT_MS))
		return err_set(err, -ETIMEDOUT, "the %s (pid %d) does not end", t->what, t->pid);
	printf("killed the %s (pid %d), which did not end by itself\n", t->what, t->pid);
	return 0;
}

/* --- the server --- */

/* It holds this lock from its start to its end. */
static bool is_locked(int data_fd)
{
	if (flock(data_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	(void)flock(data_fd, LOCK_UN);
	return false;
}

/* Returns 1 with a target, or 0 when no server is there. One that is just starting can not be
 * found yet, and one that is ending not any more. */
static int find_server(const char *root, uint64_t until_ns, struct target *ret, struct err *err)
{
	AUTO_FD data_fd = -1;
	int r = beacon_open(root, &data_fd, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(err, r, "no permission for %.160s: use sudo belljar stop", root);
	for (;;) {
		AUTO_FD socket = beacon_connect(data_fd);

		if (socket >= 0) {
			r = target_open(ret, "server", socket, err);
			if (r != -ESRCH)
				return r < 0 ? r : 1;
		}
		if (socket == -EPERM || socket == -EACCES)
			return err_set(err, socket, "the server of %.160s is not yours", root);
		if (!is_locked(data_fd))
			return 0;
		if (clock_monotonic_ns() >= until_ns)
			return err_set(err, -ETIMEDOUT,
				"a server of %.160s is starting or ending, and can not be reached",
				root);
		(void)usleep(LOOK_US);
	}
}

static int stop_server(const char *root, uint64_t timeout_ms, struct err *err)
{
	CLEANUP(target_fini) struct target t = { .fd = -1 };
	uint64_t until_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
	int r = find_server(root, until_ns, &t, err);

	if (r <= 0)
		return r;
	r = end_target(&t, timeout_ms, err);
	return r < 0 ? r : 1;
}

/* --- the keeper --- */

/* A list of ids; what else there is of each is `n_more` numbers. */
static bool read_ids(
	const struct frame *f, unsigned n_more, char (*ids)[RUN_ID_SIZE + 1], size_t *ret_n)
{
	struct cur c;
	char other[RUN_ID_SIZE + 1];

	cur_init(&c, f->data, f->size);
	uint32_t n = cur_u32(&c);
	for (uint32_t i = 0; i < n && i <= f->size; i++) {
		cur_str_into(&c, i < SHOWN_MAX ? ids[i] : other, RUN_ID_SIZE + 1);
		for (unsigned j = 0; j < n_more; j++)
			(void)cur_u32(&c);
	}
	*ret_n = n;
	return cur_end(&c) == 0;
}

_Static_assert(RUN_ID_SIZE == WORKSPACE_ID_SIZE, "read_ids() takes both");

static bool ask(int fd, uint8_t *buffer, uint32_t question, uint32_t answer, struct frame *ret)
{
	if (frame_send(fd, question, NULL, NULL, 0) < 0 || frame_recv(fd, buffer, ret) != 1)
		return false;
	frame_close_fds(ret);
	return ret->type == answer;
}

/* One of another version, or that is stuck, is ended all the same. */
static void learn_holdings(int fd, struct holdings *h)
{
	const struct timeval patience = { .tv_sec = ANSWER_SEC };
	AUTO_FREE uint8_t *buffer = xcalloc(1, FRAME_SIZE_MAX);
	struct frame f;
	uint64_t facets;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	h->is_known = connection_greet(fd, buffer, &facets, NULL) == 0 &&
		      ask(fd, buffer, MESSAGE_LIST, MESSAGE_RUNS, &f) &&
		      read_ids(&f, 1, h->runs, &h->n_runs) &&
		      ask(fd, buffer, MESSAGE_LIST_WORKSPACES, MESSAGE_WORKSPACES, &f) &&
		      read_ids(&f, 0, h->workspaces, &h->n_workspaces);
}

/* As the interface writes them: 8-4-4-4-12. */
static void print_id(const char *id)
{
	printf("%.8s-%.4s-%.4s-%.4s-%s", id, id + 8, id + 12, id + 16, id + 20);
}

static void print_ids(const char *what, char (*ids)[RUN_ID_SIZE + 1], size_t n)
{
	if (n == 0)
		return;
	printf("lost %s%zu %s%s: ", streq(what, "run") ? "" : "the files of ", n, what,
		n == 1 ? "" : "s");
	for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
		(void)fputs(i ? ", " : "", stdout);
		print_id(ids[i]);
	}
	if (n > SHOWN_MAX)
		printf(" and %zu more", n - SHOWN_MAX);
	(void)putchar('\n');
}

static void print_holdings(struct holdings *h)
{
	if (!h->is_known)
		printf("the keeper did not say what it held: its runs, and the files of sessions, "
		       "are lost\n");
	print_ids("run", h->runs, h->n_runs);
	print_ids("session", h->workspaces, h->n_workspaces);
}

static int stop_keeper(const char *root, struct err *err)
{
	CLEANUP(target_fini) struct target t = { .fd = -1 };
	struct holdings h = { 0 };
	AUTO_FD fd = -1;
	int r = connection_open_running(root, &fd, err);

	if (r == -ENOENT || r == -ECONNREFUSED)
		return 0;
	if (r == -EACCES)
		return err_set(err, r,
			"no permission for the keeper of %.160s: use sudo belljar stop", root);
	if (r == 0)
		r = target_open(&t, "keeper", fd, err);
	if (r < 0)
		return r;
	learn_holdings(fd, &h);
	r = end_target(&t, KEEPER_WAIT_MS, err);
	if (r < 0)
		return r;
	print_holdings(&h);
	return 1;
}

static int stop(const struct values *v, struct err *err)
{
	AUTO_FREE char *root = NULL;
	int r = path_state_root(v->root, &root, err);

	if (r < 0)
		return r;
	int server = stop_server(root, v->timeout_ms, err);
	if (server < 0)
		return server;
	int keeper = stop_keeper(root, err);
	if (keeper < 0)
		return keeper;
	if (server + keeper == 0)
		printf("nothing runs on %s\n", root);
	return 0;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct values v = { .timeout_ms = WAIT_MS };
	struct err err = { 0 };
	int r = option_parse_only(self, argc, argv, &v, &err);

	if (r == 0)
		return EXIT_SUCCESS;
	if (r > 0)
		r = stop(&v, &err);
	if (fflush(stdout) == EOF && r == 0)
		r = err_errno(&err, "write");
	if (r == 0)
		return EXIT_SUCCESS;
	complain("stop: %s", err.text);
	return EXIT_OURS;
}

const struct command command_stop = {
	.name = "stop",
	.summary = "End the server and the keeper of a state directory",
	.description =
		"First the server, which lets runs finish for as long as SANDBOX_DRAIN_TIMEOUT_SEC\n"
		"says, then the keeper, and with it the runs that are left and the files of sessions,\n"
		"other than those in snapshots. Says what it ended and what was lost. Exits with 0\n"
		"when nothing runs any more, also if nothing did before.",
	.options = options,
	.run = run,
};
