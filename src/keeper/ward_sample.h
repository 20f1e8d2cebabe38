/* For tests of wards: a run in a box whose client and whose init are the test. */
#pragma once
#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "keeper/sample.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define OWNER 1000u

static uint8_t buffer[FRAME_SIZE_MAX];

/* A keeper with one box on the shelf, and a run started in it by the client. The
 * test is both the client and the init of the box. */
struct stage {
	struct scratch dir;
	struct sample s;
	struct spec spec;
	struct ward *run;
	int init_fd;
	int fds[CHANNEL_COUNT]; /* the client's ends */
};

static inline void stage_fini(struct stage *t)
{
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&t->fds[i]);
	close_fdp(&t->init_fd);
	spec_fini(&t->spec);
	sample_close(&t->s);
	scratch_remove(&t->dir);
}

static inline void stage_init(struct stage *t)
{
	scratch_make(&t->dir);
	sample_open(&t->s, OWNER);
	CHECK_EQ(state_open(&t->s.k, t->dir.path, NULL), 0);
	t->init_fd = sample_box(&t->s);
	t->run = NULL;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		t->fds[i] = -1;
	spec_init(&t->spec);
	spec_make_id(t->spec.id);
	t->spec.argv = xcalloc(2, sizeof(*t->spec.argv));
	t->spec.argv[0] = xstrdup("true");
}

#define STAGE(name)                                                                                \
	CLEANUP(stage_fini) struct stage name;                                                     \
	stage_init(&name)

/* The next message on `fd`, which must be of this type; `c` is at its payload. */
static inline void expect(int fd, uint32_t type, struct cur *c, struct frame *f)
{
	CHECK_EQ(frame_recv(fd, buffer, f), 1);
	CHECK_EQ(f->type, type);
	cur_init(c, f->data, f->size);
}

/* Init is asked to send the guest this signal. */
static inline void expect_signal(struct stage *t, int sig)
{
	struct frame f;
	struct cur c;

	expect(t->init_fd, MESSAGE_BOX_SIGNAL, &c, &f);
	CHECK_EQ(cur_u32(&c), sig);
	CHECK_EQ(cur_end(&c), 0);
}

static inline void expect_silence(int fd)
{
	struct frame f;

	CHECK_EQ(frame_recv(fd, buffer, &f), -EAGAIN);
}

/* Start it; the client gets its channels, init gets the specification. */
static inline void start(struct stage *t)
{
	struct err err = { 0 };
	enum reason reason;
	struct frame f;
	struct cur c;
	CLEANUP(spec_fini) struct spec got = { 0 };

	if (ward_start(&t->s.k, t->s.peer, &t->spec, &reason, &err) < 0)
		fail_msg("%s", err.text);
	t->run = t->s.k.runs;
	expect(t->init_fd, MESSAGE_BOX_SPEC, &c, &f);
	spec_get(&got, &c);
	uint32_t mask = cur_u32(&c);
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(got.id, t->spec.id);
	CHECK_EQ(f.n_fds, (size_t)__builtin_popcount(mask));
	frame_close_fds(&f);
	if (t->spec.tty)
		return;
	expect(t->s.client_fd, MESSAGE_STARTED, &c, &f);
	AUTO_FREE char *id = cur_str(&c, RUN_ID_SIZE);
	CHECK_STR(id, t->spec.id);
	CHECK_EQ(cur_u32(&c), mask);
	CHECK_EQ(cur_end(&c), 0);
	size_t n = 0;
	for (int i = 0; i < CHANNEL_COUNT; i++) {
		if (mask & (1u << i))
			t->fds[i] = take_fd(&f.fds[n++]);
	}
	CHECK_EQ(n, f.n_fds);
}

static inline void tell(struct stage *t, uint32_t type, struct put *p)
{
	CHECK_EQ(frame_send(t->init_fd, type, p, NULL, 0), 0);
	put_fini(p);
	sample_turn(&t->s, 0);
}

static inline void tell_running(struct stage *t)
{
	struct put p;
	struct frame f;
	struct cur c;

	put_init(&p, 64);
	put_u64(&p, clock_monotonic_ns());
	put_u8(&p, 0);
	tell(t, MESSAGE_BOX_RUNNING, &p);
	expect(t->s.client_fd, MESSAGE_RUNNING, &c, &f);
}

static inline void tell_exited(struct stage *t, int status)
{
	struct put p;

	put_init(&p, 256);
	put_u64(&p, clock_monotonic_ns());
	put_u32(&p, (uint32_t)status);
	put_u64(&p, 1234);
	put_u64(&p, 5 << 20);
	put_u64(&p, 7);
	put_u64(&p, 2);
	tell(t, MESSAGE_BOX_EXITED, &p);
}

static inline void tell_captured(struct stage *t, const char *text)
{
	struct put p;

	put_init(&p, 512);
	put_u64(&p, 99);
	put_u32(&p, text[0] ? EIO : 0);
	put_str(&p, text);
	tell(t, MESSAGE_BOX_CAPTURED, &p);
}

static inline struct result expect_ended(struct stage *t)
{
	struct result result;
	struct frame f;
	struct cur c;

	/* The end of a process that was killed takes a moment, and several events. */
	for (int i = 0; i < 20 && t->run->state != RUN_ENDED; i++)
		sample_turn(&t->s, 100);
	expect(t->s.client_fd, MESSAGE_ENDED, &c, &f);
	result_get(&result, &c);
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(result.id, t->spec.id);
	return result;
}

static inline void capture(struct stage *t)
{
	t->spec.globs = xcalloc(2, sizeof(*t->spec.globs));
	t->spec.globs[0] = xstrdup("*");
}
