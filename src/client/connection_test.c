#include "client/connection.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/err.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "lib/scratch.h"
#include "lib/test.h"

static uint8_t buffer[FRAME_SIZE_MAX];

struct pair {
	int ours;
	int keeper;
};

static void pair_fini(struct pair *p)
{
	close_fdp(&p->ours);
	close_fdp(&p->keeper);
}

static struct pair pair_make(void)
{
	int ends[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	return (struct pair){ ends[0], ends[1] };
}

#define PAIR(name) CLEANUP(pair_fini) struct pair name = pair_make()

TEST(a_greeting_brings_the_facets)
{
	PAIR(p);
	struct put out;
	struct frame f;
	uint64_t facets = 0;

	put_init(&out, 64);
	put_u64(&out, 5);
	put_str(&out, "0123456789abcdef");
	CHECK_EQ(frame_send(p.keeper, MESSAGE_WELCOME, &out, NULL, 0), 0);
	put_fini(&out);
	CHECK_EQ(connection_greet(p.ours, buffer, &facets, NULL), 0);
	CHECK_EQ(facets, 5);
	CHECK_EQ(frame_recv(p.keeper, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_HELLO);
	CHECK_EQ(f.size, 0);
}

TEST(an_answer_of_another_kind_is_refused)
{
	static const struct {
		uint32_t type;
		size_t size;
	} rows[] = {
		{ MESSAGE_WELCOME, 0 },
		{ MESSAGE_WELCOME, 7 },
		{ MESSAGE_WELCOME, 9 },
		{ MESSAGE_REFUSED, 8 },
		{ MESSAGE_HELLO, 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		PAIR(p);
		struct put out;
		struct err err = { 0 };
		uint64_t facets = 77;

		put_init(&out, 64);
		for (size_t j = 0; j < rows[i].size; j++)
			put_u8(&out, 1);
		size_t n_before = scratch_count_fds();
		CHECK_EQ(frame_send(p.keeper, rows[i].type, &out, &p.keeper, 1), 0);
		put_fini(&out);
		CHECK_EQ(connection_greet(p.ours, buffer, &facets, &err), -EBADMSG);
		CHECK_EQ(facets, 77);
		CHECK(err.text[0] != '\0');
		CHECK_EQ(scratch_count_fds(), n_before);
	}
}

TEST(a_keeper_of_another_version_is_told_apart)
{
	PAIR(p);
	uint32_t header[2] = { htole32(MESSAGE_VERSION + 1), htole32(MESSAGE_WELCOME) };
	struct err err = { 0 };
	uint64_t facets;

	CHECK_EQ(send(p.keeper, header, sizeof(header), 0), sizeof(header));
	CHECK_EQ(connection_greet(p.ours, buffer, &facets, &err), -EPROTO);
	CHECK(strstr(err.text, "another version") != NULL);
}

TEST(a_keeper_that_hangs_up_is_told)
{
	PAIR(p);
	struct err err = { 0 };
	uint64_t facets;

	close_fdp(&p.keeper);
	CHECK_EQ(connection_greet(p.ours, buffer, &facets, &err), -ECONNRESET);
	CHECK(strstr(err.text, "turned us away") != NULL);
}

TEST(where_no_keeper_serves_none_is_found)
{
	SCRATCH(d);
	struct err err = { 0 };
	char path[PATH_MAX];
	int fd = -1;

	CHECK_EQ(connection_open_running(d.path, &fd, &err), -ENOENT);
	CHECK(strstr(err.text, d.path) != NULL);
	(void)snprintf(path, sizeof(path), "%s/nowhere", d.path);
	CHECK_EQ(connection_open_running(path, &fd, &err), -ENOENT);
	scratch_write(d.fd, "keeper.sock", "");
	CHECK_EQ(connection_open_running(d.path, &fd, &err), -ECONNREFUSED);
	CHECK_EQ(fd, -1);
}

TEST(a_program_that_can_not_be_executed_is_named)
{
	SCRATCH(d);
	struct own_keeper own = { 0 };
	struct err err = { 0 };
	size_t n_before = scratch_count_fds();

	CHECK_EQ(connection_start_keeper("/nowhere/belljar", d.path, &own, &err), -ENOENT);
	CHECK(strstr(err.text, "/nowhere/belljar") != NULL);
	CHECK_EQ(connection_start_keeper("/etc/passwd", d.path, &own, &err), -EACCES);
	CHECK_EQ(own.pid, 0);
	connection_stop_keeper(&own);
	CHECK_EQ(scratch_count_fds(), n_before);
}

/* One that dies at once: nobody may wait for it for ever. */
TEST(a_keeper_that_dies_is_noticed)
{
	SCRATCH(d);
	struct own_keeper own = { 0 };
	uint64_t facets;
	AUTO_FD fd = -1;

	CHECK_EQ(connection_start_keeper("/bin/false", d.path, &own, NULL), 0);
	int r = connection_open_own(&own, &fd, NULL);
	if (r == 0)
		r = connection_greet(fd, buffer, &facets, NULL);
	CHECK(r == -ECONNREFUSED || r == -ECONNRESET);
	connection_stop_keeper(&own);
	CHECK_EQ(own.pid, 0);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(a_keeper_of_our_own_starts_and_ends)
{
	SCRATCH(d);
	struct own_keeper own = { 0 };
	const char *program = getenv("BELLJAR_PROGRAM");
	struct err err = { 0 };
	uint64_t facets = 0;
	AUTO_FD fd = -1;

	if (!program)
		SKIP("$BELLJAR_PROGRAM does not say which program to start");
	size_t n_before = scratch_count_fds();
	CHECK_EQ(connection_start_keeper(program, d.path, &own, &err), 0);
	CHECK_EQ(scratch_count_fds(), n_before + 1); /* the lifeline */
	CHECK_EQ(connection_open_own(&own, &fd, &err), 0);
	int r = connection_greet(fd, buffer, &facets, &err);
	connection_stop_keeper(&own);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	if (r == -ECONNRESET)
		SKIP("there can be no keeper here");
	CHECK_EQ(r, 0);
	CHECK(facets != 0);
}

/* Somebody else at the address of a keeper that has died. */
static pid_t start_impostor(struct own_keeper *keeper)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int ready[2];
	char byte = 0;

	keeper->address_size = sizeof(keeper->address);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&keeper->address, &keeper->address_size), 0);
	CHECK_EQ(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		/* Who calls listen() is whom the other side sees. */
		if (setresuid(65534, 65534, 65534) < 0 || listen(fd, 1) < 0)
			_exit(1);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		(void)pause();
		_exit(0);
	}
	(void)close(fd);
	(void)close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	return pid;
}

TEST(an_impostor_hears_nothing)
{
	struct own_keeper keeper = { .pid = 1 };
	struct err err;
	int fd = -1;

	if (geteuid() != 0)
		SKIP("becoming another user needs root");
	pid_t pid = start_impostor(&keeper);
	CHECK_EQ(connection_open_own(&keeper, &fd, &err), -EPERM);
	CHECK_EQ(fd, -1);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

TESTS(UNIT(an_impostor_hears_nothing), UNIT(a_greeting_brings_the_facets),
	UNIT(an_answer_of_another_kind_is_refused), UNIT(a_keeper_of_another_version_is_told_apart),
	UNIT(a_keeper_that_hangs_up_is_told), UNIT(where_no_keeper_serves_none_is_found),
	UNIT(a_program_that_can_not_be_executed_is_named), UNIT(a_keeper_that_dies_is_noticed),
	UNIT(a_keeper_of_our_own_starts_and_ends))
