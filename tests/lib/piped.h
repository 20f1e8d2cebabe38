/* For tests of what reads from a box: a loop, and a pipe of which the test has the other end. */
#pragma once
#include <unistd.h>
#include <uv.h>

#include "base/fd.h"
#include "lib/test.h"

struct piped {
	uv_loop_t loop;
	int from; /* whoever reads it closes it */
	int to;
};

static inline void piped_open(struct piped *p)
{
	CHECK_EQ(uv_loop_init(&p->loop), 0);
	CHECK_EQ(fd_pipe(&p->from, &p->to), 0);
}

/* Nothing more is written: see what comes of it, and that nothing of it is left. */
static inline void piped_close(struct piped *p)
{
	(void)close(p->to);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	CHECK_EQ(uv_loop_close(&p->loop), 0);
}
