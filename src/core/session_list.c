/* What is in a session's workspace: a box of its own looks, and says so. */
#include <stdlib.h>

#include "base/str.h"
#include "core/errand.h"
#include "core/problem.h"
#include "core/session_private.h"
#include "ipc/inventory.h"

struct look {
	struct inventory listing;
	session_listing_cb *done;
	void *ctx;
};

static void end(struct look *l, struct problem *problem)
{
	l->done(l->ctx, problem->status ? NULL : &l->listing, problem);
	problem_fini(problem);
	inventory_fini(&l->listing);
	free(l);
}

static void on_listed(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct look *l = ctx;
	struct problem problem = { 0 };
	const char *code = session_gone_code(r);

	(void)n_bytes;
	if (r < 0)
		(void)problem_set(&problem, code ? code : "internal_error",
			"the files can not be listed: %s", text);
	end(l, &problem);
}

void session_list_files(struct session *session, bool digests, session_listing_cb *done, void *ctx)
{
	struct look *l = xnew(struct look);
	struct problem problem = { 0 };
	struct errand_plan plan = { .capture_fd = -1, .listing = &l->listing, .digests = digests };

	l->done = done;
	l->ctx = ctx;
	if (!session_is_usable(session, &problem))
		end(l, &problem);
	else
		errand_start(session, &plan, on_listed, l);
}
