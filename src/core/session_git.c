/* The files of a repository for a session: cloned by repository.c, and then put into its workspace.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "core/errand.h"
#include "core/problem.h"
#include "core/repository.h"
#include "core/service.h"
#include "core/session_private.h"
#include "ipc/pack_write.h"

struct fetch {
	struct session *session;
	session_cb *done;
	void *ctx;
};

static void end_fetch(struct fetch *f, struct problem *problem)
{
	f->done(f->ctx, f->session, problem);
	problem_fini(problem);
	free(f);
}

static int feed_tree(void *ctx, int fd, struct err *err)
{
	const struct fetch *f = ctx;
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	int r = repository_send(f->session->service, f->session->workspace, &w, err);

	return r < 0 ? r : pack_write_end(&w, err);
}

static void on_tree_in(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct fetch *f = ctx;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r < 0)
		session_files_problem(&problem, f->session, r, text);
	repository_remove(f->session->service, f->session->workspace);
	end_fetch(f, &problem);
}

static void on_fetched(void *ctx, struct problem *problem)
{
	struct fetch *f = ctx;
	struct session *session = f->session;
	struct errand_plan plan = { .feed = feed_tree, .feed_ctx = f, .capture_fd = -1 };

	if (!problem->status && session_is_usable(session, problem)) {
		errand_start(session, &plan, on_tree_in, f);
	} else {
		repository_remove(session->service, session->workspace);
		end_fetch(f, problem);
	}
	session->n_work--;
	session_check_ending(session);
}

void session_fetch_git(struct session *session, const json_t *git, session_cb *done, void *ctx)
{
	struct fetch *f = xnew(struct fetch);
	struct repository_order order = {
		.user_id = session->row.user_id,
		.name = session->workspace,
		.git = git,
	};

	*f = (struct fetch){ .session = session, .done = done, .ctx = ctx };
	session->n_work++;
	repository_fetch(session->service, &order, on_fetched, f);
}
