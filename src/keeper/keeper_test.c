#include "keeper/keeper.h"

#include <errno.h>
#include <signal.h>
#include <sys/un.h>

#include "base/err.h"
#include "keeper/sample.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

static uint8_t buffer[FRAME_SIZE_MAX];

/* A keeper in a process of its own, as a client starts one. */
struct served {
	pid_t pid;
	int lifeline_fd;
	int listen_fd;
	struct sockaddr_un address;
	socklen_t address_size;
};

static void serve(struct served *s, const char *dir)
{
	struct keeper_options options = { .root = dir, .uid = geteuid() };

	*s = (struct served){ .address_size = sizeof(s->address) };
	s->address.sun_family = AF_UNIX;
	s->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(s->listen_fd, (struct sockaddr *)&s->address, sizeof(sa_family_t)), 0);
	CHECK_EQ(listen(s->listen_fd, 8), 0);
	CHECK_EQ(getsockname(s->listen_fd, (struct sockaddr *)&s->address, &s->address_size), 0);
	CHECK_EQ(fd_pipe(&options.lifeline_fd, &s->lifeline_fd), 0);
	options.listen_fd = s->listen_fd;
	(void)fflush(NULL);
	s->pid = fork();
	if (s->pid == 0) {
		struct err err = { 0 };

		(void)close(s->lifeline_fd);
		int r = keeper_serve(&options, &err);
		_exit(r == 0 ? 0 : r == -EPERM || r == -ENOSPC ? 77 : 1);
	}
	CHECK(s->pid > 0);
	(void)close(options.lifeline_fd);
	close_fdp(&s->listen_fd);
}

static int connect_to(const struct served *s)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK_EQ(connect(fd, (const struct sockaddr *)&s->address, s->address_size), 0);
	return fd;
}

/* The keeper's status, once it has ended; 77 when there can be none here. */
static int await_end(const struct served *s)
{
	int status = -1;

	CHECK_EQ(waitpid(s->pid, &status, 0), s->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* True when it welcomes us. */
static bool greet(int fd)
{
	struct frame f;

	if (frame_send(fd, MESSAGE_HELLO, NULL, NULL, 0) < 0 || frame_recv(fd, buffer, &f) != 1)
		return false;
	frame_close_fds(&f);
	return f.type == MESSAGE_WELCOME;
}

TEST(a_keeper_serves_until_its_lifeline_ends)
{
	SCRATCH(d);
	struct served s;

	serve(&s, d.path);
	AUTO_FD first = connect_to(&s);
	if (!greet(first) && await_end(&s) == 77)
		SKIP("no user namespaces here");
	AUTO_FD second = connect_to(&s);
	CHECK(greet(second));
	close_fdp(&s.lifeline_fd);
	CHECK_EQ(await_end(&s), 0);
	struct frame f;
	CHECK_EQ(frame_recv(first, buffer, &f), 0);
	CHECK_EQ(unlinkat(d.fd, "keepers", AT_REMOVEDIR), 0); /* nothing is left in it */
}

TEST(a_keeper_ends_when_it_is_told_to)
{
	static const int signals[] = { SIGTERM, SIGINT };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		SCRATCH(d);
		struct served s;

		serve(&s, d.path);
		AUTO_FD fd = connect_to(&s);
		if (!greet(fd) && await_end(&s) == 77)
			SKIP("no user namespaces here");
		CHECK_EQ(kill(s.pid, signals[i]), 0);
		CHECK_EQ(await_end(&s), 0);
		close_fdp(&s.lifeline_fd);
	}
}

TEST(a_hostile_client_harms_only_itself)
{
	SCRATCH(d);
	struct served s;
	struct frame f;

	serve(&s, d.path);
	AUTO_FD good = connect_to(&s);
	if (!greet(good) && await_end(&s) == 77)
		SKIP("no user namespaces here");
	AUTO_FD bad = connect_to(&s);
	CHECK(greet(bad));
	CHECK_EQ(frame_send(bad, MESSAGE_BOX_KILL, NULL, NULL, 0), 0);
	CHECK_EQ(frame_recv(bad, buffer, &f), 0);
	CHECK_EQ(frame_send(good, MESSAGE_LIST, NULL, NULL, 0), 0);
	CHECK_EQ(frame_recv(good, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_RUNS);
	close_fdp(&s.lifeline_fd);
	CHECK_EQ(await_end(&s), 0);
}

TEST(there_are_not_too_many_clients)
{
	SCRATCH(d);
	struct served s;
	int fds[PEERS_MAX + 1];

	serve(&s, d.path);
	fds[0] = connect_to(&s);
	if (!greet(fds[0]) && await_end(&s) == 77)
		SKIP("no user namespaces here");
	for (size_t i = 1; i < PEERS_MAX; i++) {
		fds[i] = connect_to(&s);
		CHECK(greet(fds[i]));
	}
	fds[PEERS_MAX] = connect_to(&s);
	CHECK(!greet(fds[PEERS_MAX]));
	(void)close(fds[PEERS_MAX]);
	(void)close(fds[0]);
	/* Where one has gone, there is room for another, once it was noticed. */
	bool welcome = false;
	for (int i = 0; i < 100 && !welcome; i++) {
		AUTO_FD fd = connect_to(&s);

		welcome = greet(fd);
		(void)usleep(welcome ? 0 : 1000);
	}
	CHECK(welcome);
	for (size_t i = 1; i < PEERS_MAX; i++)
		(void)close(fds[i]);
	close_fdp(&s.lifeline_fd);
	CHECK_EQ(await_end(&s), 0);
}

static void refuse(void *ctx)
{
	struct keeper_options options = { .root = ctx, .listen_fd = -1, .lifeline_fd = -1 };
	struct err err = { 0 };

	options.profile = "/nowhere/profile.json";
	CHILD_CHECK(keeper_serve(&options, &err) == -ENOENT);
	CHILD_CHECK(strstr(err.text, "/nowhere/profile.json") != NULL);
	options.profile = "/etc/passwd";
	CHILD_CHECK(keeper_serve(&options, &err) < 0);
	options.root = "relative";
	CHILD_CHECK(keeper_serve(&options, &err) == -EINVAL);
}

TEST(what_is_wrong_at_the_start_is_told)
{
	SCRATCH(d);

	IN_CHILD(refuse, d.path);
}

TESTS(UNIT(a_keeper_serves_until_its_lifeline_ends), UNIT(a_keeper_ends_when_it_is_told_to),
	UNIT(a_hostile_client_harms_only_itself), UNIT(there_are_not_too_many_clients),
	UNIT(what_is_wrong_at_the_start_is_told))
