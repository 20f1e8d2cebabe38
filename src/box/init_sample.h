/* For tests of init: one real box, whose keeper is the test. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/str.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/result.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

/* How long anything may take that happens at once unless something is wrong. */
#define SOON_MS 20000

static uint8_t buffer[FRAME_SIZE_MAX];

/* The keeper's side of one real box, played by the test. */
struct play {
	struct stage stage;
	struct box box;
	int out_fd;
	int files_fd;
	int capture_fd;
	int listing_fd;
};

static inline void open_box_as(struct play *p, const char *stage_dir, enum seal seal)
{
	struct err err = { 0 };

	memset(p, 0, sizeof(*p));
	p->out_fd = p->files_fd = p->capture_fd = p->listing_fd = -1;
	stage_host(&p->stage, stage_dir);
	struct box_order order = STAGE_ORDER(p->stage.root, 0x70001234);
	order.seal = seal;
	if (box_start(&p->stage.host, &order, &p->box, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
}

static inline void open_box(struct play *p, const char *stage_dir)
{
	open_box_as(p, stage_dir, SEAL_NONE);
}

/* Hand over a shell script, with a pipe for its output. */
static inline void send_script(struct play *p, const char *script)
{
	char *argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)script, NULL };
	char *env[] = { (char *)"PATH=/usr/bin:/bin", NULL };
	struct spec *s = &p->stage.spec;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[CHANNEL_COUNT] = { null_fd, -1, null_fd };
	uint32_t mask = 1u << CHANNEL_STDIN | 1u << CHANNEL_STDOUT | 1u << CHANNEL_STDERR;
	size_t n = 3;
	int ends[2];
	struct put out;

	CHILD_CHECK(fd_pipe(&p->out_fd, &fds[1]) == 0);
	if (s->takes_files) {
		CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		p->files_fd = ends[0];
		fds[n++] = ends[1];
		mask |= 1u << CHANNEL_FILES;
	}
	if (s->globs) {
		CHILD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		p->capture_fd = ends[0];
		fds[n++] = ends[1];
		mask |= 1u << CHANNEL_CAPTURE;
	}
	if (s->lists) {
		CHILD_CHECK(fd_pipe(&p->listing_fd, &fds[n++]) == 0);
		mask |= 1u << CHANNEL_LISTING;
	}
	spec_make_id(s->id);
	s->argv = argv;
	s->env = env;
	put_init(&out, FRAME_SIZE_MAX);
	spec_put(s, &out);
	put_u32(&out, mask);
	s->argv = s->env = NULL; /* they end with this function */
	CHILD_CHECK(frame_send(p->box.control_fd, MESSAGE_BOX_SPEC, &out, fds, n) == 0);
	put_fini(&out);
	for (size_t i = 1; i < n; i++) {
		if (fds[i] != null_fd)
			(void)close(fds[i]);
	}
	(void)close(null_fd);
}

/* The next message of init, or 0 when it hung up. */
static inline uint32_t hear(struct play *p, struct cur *c)
{
	struct pollfd fds = { .fd = p->box.control_fd, .events = POLLIN };
	struct frame f;

	CHILD_CHECK(poll(&fds, 1, SOON_MS) == 1);
	int r = frame_recv(p->box.control_fd, buffer, &f);
	CHILD_CHECK(r >= 0 || r == -ECONNRESET);
	if (r <= 0)
		return 0;
	frame_close_fds(&f);
	cur_init(c, f.data, f.size);
	return f.type;
}

/* The wait status that init reports. */
static inline int hear_exited(struct play *p)
{
	struct cur c;

	CHILD_CHECK(hear(p, &c) == MESSAGE_BOX_EXITED);
	(void)cur_u64(&c);
	int status = (int)cur_u32(&c);
	for (int i = 0; i < 4; i++)
		(void)cur_u64(&c);
	CHILD_CHECK(cur_end(&c) == 0);
	return status;
}

static inline void expect_gone(struct play *p)
{
	struct pollfd fds = { .fd = p->box.pid_fd, .events = POLLIN };

	CHILD_CHECK(poll(&fds, 1, SOON_MS) == 1);
	CHILD_CHECK(box_reap(&p->box));
	box_fini(&p->box);
}

static inline bool printed(struct play *p, const char *text)
{
	char got[256];
	ssize_t n = fd_read_full(p->out_fd, got, sizeof(got) - 1);

	CHILD_CHECK(n >= 0);
	got[n] = '\0';
	return streq(got, text);
}
