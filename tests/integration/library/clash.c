/* A program whose own names are those that the library uses inside. Neither may get
 * the other's. */
#include "check.h"

static int n_called;

#define OURS(name)                                                                                 \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return ++n_called;                                                                 \
	}

OURS(err_set)
OURS(err_errno)
OURS(streq)
OURS(spec_init)
OURS(spec_check)
OURS(frame_send)
OURS(frame_recv)
OURS(pack_feed)
OURS(xcalloc)
OURS(fd_pipe)
OURS(path_state_root)
OURS(image_resolve)
OURS(connection_greet)
OURS(sandbox_report)

int main(void)
{
	struct belljar_sandbox *sandbox = open_sandbox();
	struct belljar_task_options options = { .argv = ARGV("echo", "hi") };
	COLLECTOR(c);

	CHECK(run(sandbox, &options, &c).outcome == BELLJAR_SUCCESS);
	CHECK(strcmp(c.out, "hi\n") == 0);
	belljar_close(sandbox);
	CHECK(n_called == 0);
	CHECK(err_set() == 1 && xcalloc() == 2);
	return 0;
}
