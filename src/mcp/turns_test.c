#include "mcp/turns.h"

#include <fcntl.h>
#include <uv.h>

#include "base/fd.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/mcp_peer.h"

#include "lib/test.h"

struct sample {
	uv_loop_t loop;
	struct service service;
	struct mcp_host host;
	int n_told;
	uint64_t last_size;
};

static void sample_open(struct sample *s)
{
	*s = (struct sample){ 0 };
	CHECK_EQ(uv_loop_init(&s->loop), 0);
	s->service.loop = &s->loop;
	s->host.service = &s->service;
}

static void on_turn(void *ctx, const struct session_file *file)
{
	struct sample *s = ctx;

	CHECK(fcntl(file->fd, F_GETFD) >= 0);
	s->n_told++;
	s->last_size = file->size;
}

/* The number of its descriptor. */
static int ask(struct sample *s, uint64_t size)
{
	struct session_file file = { .fd = open("/dev/null", O_RDONLY | O_CLOEXEC), .size = size };
	int fd = file.fd;

	CHECK(fd >= 0);
	turns_wait(&s->host, &file, on_turn, s);
	CHECK_EQ(file.fd, -1);
	return fd;
}

TEST(what_is_large_has_a_turn_of_its_own)
{
	struct sample s;
	int fds[3];

	sample_open(&s);
	for (int i = 0; i < 3; i++)
		fds[i] = ask(&s, TURNS_SMALL + 1 + (unsigned)i);
	CHECK_EQ(s.n_told, 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(uv_run(&s.loop, UV_RUN_NOWAIT) != 0, i < 2);
		CHECK_EQ(s.n_told, i + 1);
		CHECK_EQ(s.last_size, TURNS_SMALL + 1 + (unsigned)i);
		CHECK_EQ(fcntl(fds[i], F_GETFD), -1);
	}
	CHECK(!s.host.turns);
	(void)ask(&s, TURNS_SMALL + 1); /* after all of them there may be others */
	CHECK_EQ(uv_run(&s.loop, UV_RUN_DEFAULT), 0);
	CHECK_EQ(s.n_told, 4);
	CHECK_EQ(uv_loop_close(&s.loop), 0);
}

TEST(what_is_small_is_not_kept_waiting)
{
	struct sample s;

	sample_open(&s);
	(void)ask(&s, TURNS_SMALL + 1);
	int fd = ask(&s, TURNS_SMALL);
	CHECK_EQ(s.n_told, 1);
	CHECK_EQ(s.last_size, TURNS_SMALL);
	CHECK_EQ(fcntl(fd, F_GETFD), -1);
	CHECK_EQ(uv_run(&s.loop, UV_RUN_DEFAULT), 0);
	CHECK_EQ(s.n_told, 2);
	CHECK_EQ(uv_loop_close(&s.loop), 0);
}

TESTS(UNIT(what_is_large_has_a_turn_of_its_own), UNIT(what_is_small_is_not_kept_waiting))
