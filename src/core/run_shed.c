/* A run that waits, for its turn or for an approval, need not hold what it will execute: the store
 * has that, and there may be hundreds of them with files in their requests. What is large is let
 * go when it is stored, and read again when the run begins. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "core/run_private.h"
#include "core/service.h"

/* Bytes of a stored request. To read a smaller one again would cost more than to hold it. */
#define SHED_MIN (16u << 10)

/* What may be large of a request, and nobody asks for before the run begins. */
static const struct {
	const char *name;
	size_t offset;
} bulky[] = {
	{ "command", offsetof(struct request, command) },
	{ "env", offsetof(struct request, env) },
	{ "files", offsetof(struct request, files) },
	{ "stdin", offsetof(struct request, input) },
};

/* One that is held back may not be stored as it is. */
static bool may_shed(const struct run *run)
{
	bool waits = run->waiting.user || run->waiting.holder;

	return waits && !run->held && !run->has_result && run->row.request &&
	       strlen(run->row.request) >= SHED_MIN;
}

void run_shed(struct run *run)
{
	if (!may_shed(run))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(bulky); i++) {
		(void)json_object_del(run->request.body, bulky[i].name);
		*(const void **)((char *)&run->request + bulky[i].offset) = NULL;
	}
	request_free_files(TAKE(run->files), run->n_files);
	run->n_files = 0;
	run_set_text(&run->row.request, NULL);
	run->is_shed = true;
}

struct fetch {
	struct run *run;
	run_fetched_cb *done;
};

static int take_back(struct run *run, const struct run_row *row)
{
	run_set_text(&run->row.request, row->request);
	request_fini(&run->request);
	run->is_shed = false;
	return run_parse_stored(run, NULL);
}

static void go_on(struct run *run, int r, run_fetched_cb *done)
{
	if (r < 0)
		run_end_without(run, REASON_INFRASTRUCTURE_ERROR, NULL,
			"what to execute could not be read from the store");
	else
		done(run);
}

static void on_fetched(void *ctx, int r, const void *row)
{
	AUTO_FREE struct fetch *f = ctx;
	struct run *run = f->run;

	run->service->n_pending--;
	run->n_work--;
	if (run->service->is_closing)
		return; /* the next server finds it in the store */
	if (run->has_result) {
		run_check_over(run);
		return;
	}
	if (r == 0)
		r = take_back(run, row);
	else
		(void)log_error(
			r, "cannot read the request of run %s: %s", run->row.id, strerror(-r));
	go_on(run, r, f->done);
}

void run_fetch(struct run *run, run_fetched_cb *done)
{
	struct service *s = run->service;

	/* One of a predecessor's is not looked at before the keeper is there. */
	if (!run->is_shed) {
		go_on(run, run->request.body ? 0 : run_parse_stored(run, NULL), done);
		return;
	}
	struct fetch *f = xnew(struct fetch);
	*f = (struct fetch){ .run = run, .done = done };
	run->n_work++;
	s->n_pending++;
	store_get(s->store, &run_table, &run->row, on_fetched, f);
}
