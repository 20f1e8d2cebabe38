#include "client/sandbox.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/frame.h"
#include "lib/scratch.h"
#include "lib/test.h"

static uint8_t buffer[FRAME_SIZE_MAX];

TEST(connections_are_lent_and_come_back)
{
	struct belljar_sandbox s = { .root = (char *)"/nowhere" };
	int ends[2];
	AUTO_FD taken = -1;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	sandbox_give_connection(&s, ends[0]);
	CHECK_EQ(s.n_idle, 1);
	CHECK_EQ(sandbox_take_connection(&s, buffer, &taken, NULL), 0);
	CHECK_EQ(taken, ends[0]);
	CHECK_EQ(s.n_idle, 0);
	(void)close(ends[1]);
}

TEST(a_connection_whose_keeper_is_gone_is_not_lent)
{
	struct belljar_sandbox s = { .root = (char *)"/nowhere" };
	int ends[2];
	int taken = -1;
	size_t n_before = scratch_count_fds();

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	sandbox_give_connection(&s, ends[0]);
	(void)close(ends[1]);
	CHECK_EQ(sandbox_take_connection(&s, buffer, &taken, NULL), -ENOENT);
	CHECK_EQ(taken, -1);
	CHECK_EQ(scratch_count_fds(), n_before);
}

TEST(not_too_many_are_kept)
{
	struct belljar_sandbox s = { 0 };
	size_t n_before = scratch_count_fds();

	for (int i = 0; i < 2 * IDLE_CONNECTIONS_MAX; i++)
		sandbox_give_connection(&s, open("/dev/null", O_RDONLY | O_CLOEXEC));
	CHECK_EQ(s.n_idle, IDLE_CONNECTIONS_MAX);
	CHECK_EQ(scratch_count_fds(), n_before + IDLE_CONNECTIONS_MAX);
	while (s.n_idle > 0)
		(void)close(s.idle[--s.n_idle]);
}

TEST(what_can_not_be_opened_is_told)
{
	SCRATCH(d);
	struct belljar_sandbox *s = NULL;
	struct belljar_error error = { 0 };
	struct belljar_options options = { .root = d.path, .keeper = BELLJAR_KEEPER_RUNNING };
	size_t n_before = scratch_count_fds();

	CHECK_EQ(belljar_open(&options, &s, &error), -ENOENT);
	CHECK(strstr(error.text, d.path) != NULL);
	options.keeper = BELLJAR_KEEPER_OWN;
	options.program = "/nowhere/belljar";
	CHECK_EQ(belljar_open(&options, &s, &error), -ENOENT);
	CHECK(strstr(error.text, "/nowhere/belljar") != NULL);
	options.program = "/bin/false";
	CHECK(belljar_open(&options, &s, &error) < 0);
	options.root = "/up/../down";
	CHECK_EQ(belljar_open(&options, &s, &error), -EINVAL);
	CHECK(strstr(error.text, "/up/../down") != NULL);
	CHECK(s == NULL);
	CHECK_EQ(scratch_count_fds(), n_before);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	belljar_close(NULL);
}

TEST(names_are_those_of_the_facets)
{
	CHECK_STR(belljar_facet_name(BELLJAR_FACET_MEMORY), "memory");
	CHECK_STR(belljar_facet_name(BELLJAR_FACET_UID), "uid");
	CHECK(belljar_facet_name(BELLJAR_FACET_COUNT) == NULL);
	CHECK(belljar_facet_name((enum belljar_facet) - 1) == NULL);
	CHECK(*belljar_version() != '\0');
}

TEST(an_own_keeper_serves_and_goes)
{
	SCRATCH(d);
	struct belljar_sandbox *s = NULL;
	struct belljar_error error = { 0 };
	struct belljar_options options = { .root = d.path, .keeper = BELLJAR_KEEPER_OWN };

	if (!getenv("BELLJAR_PROGRAM"))
		SKIP("$BELLJAR_PROGRAM does not say which program to start");
	int r = belljar_open(&options, &s, &error);
	if (r == -ECONNRESET || r == -ECONNREFUSED)
		SKIP("there can be no keeper here");
	CHECK_EQ(r, 0);
	CHECK(belljar_enforced(s) & (1u << BELLJAR_FACET_SECCOMP));
	belljar_close(s);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

TESTS(UNIT(connections_are_lent_and_come_back), UNIT(a_connection_whose_keeper_is_gone_is_not_lent),
	UNIT(not_too_many_are_kept), UNIT(what_can_not_be_opened_is_told),
	UNIT(names_are_those_of_the_facets), UNIT(an_own_keeper_serves_and_goes))
