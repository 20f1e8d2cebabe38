/* What is in a session's workspace: a box of its own looks, and says so. */
#include <errno.h>
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

static const char *code_of(int r)
{
	static const struct {
		int r;
		const char *code;
	} known[] = {
		{ -ECONNRESET, "runtime_unavailable" },
		{ -EAGAIN, "runtime_unavailable" },
		{ -ECANCELED, "session_not_found" },
		{ -ENOENT, "session_not_found" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].r == r)
			return known[i].code;
	}
	return "internal_error";
}

static void on_listed(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct look *l = ctx;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r < 0)
		(void)problem_set(&problem, code_of(r), "the files can not be listed: %s", text);
	end(l, &problem);
}

void session_list_files(struct session *session, session_listing_cb *done, void *ctx)
{
	struct look *l = xnew(struct look);
	struct problem problem = { 0 };
	struct errand_plan plan = { .capture_fd = -1, .listing = &l->listing };

	l->done = done;
	l->ctx = ctx;
	if (!session_is_usable(session, &problem))
		end(l, &problem);
	else
		errand_start(session, &plan, on_listed, l);
}
