#include "api/shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "core/service.h"

struct shelf_job {
	uv_work_t work;
	int dir_fd; /* -1: the run has no directory (any more) */
	char *path; /* NULL: all of them */
	shelf_list_cb *listed;
	shelf_open_cb *opened;
	void *ctx;
	int r;
	struct err err;
	json_t *items;
	struct artifact artifact;
};

static void on_work(uv_work_t *work)
{
	struct shelf_job *j = work->data;

	if (j->dir_fd < 0) {
		j->r = j->path ? -ENOENT : 0;
		j->items = j->path ? NULL : json_array();
	} else if (j->path) {
		j->r = artifact_open(j->dir_fd, j->path, &j->artifact, &j->err);
	} else {
		j->r = artifact_list(j->dir_fd, &j->items, &j->err);
	}
}

static void on_worked(uv_work_t *work, int status)
{
	struct shelf_job *j = work->data;
	int r = status < 0 ? status : j->r;

	if (r < 0 && r != -ENOENT && r != -EINVAL)
		(void)log_error(r, "cannot read artifacts: %s", j->err.text);
	if (j->path)
		j->opened(j->ctx, r, &j->artifact);
	else
		j->listed(j->ctx, r, r < 0 ? NULL : TAKE(j->items));
	close_fdp(&j->dir_fd);
	free(j->path);
	free(j);
}

/* The directory is opened here, so that the thread needs nothing of the service. */
static void start(struct service *s, const char *user_id, const char *run_id, struct shelf_job *j)
{
	j->dir_fd = -1;
	j->artifact.fd = -1;
	(void)run_dir_open(s, user_id, run_id, false, &j->dir_fd);
	j->work.data = j;
	/* It fails without a function to call, and never else. */
	(void)uv_queue_work(s->loop, &j->work, on_work, on_worked);
}

void shelf_list(
	struct service *s, const char *user_id, const char *run_id, shelf_list_cb *done, void *ctx)
{
	struct shelf_job *j = xnew(struct shelf_job);

	j->listed = done;
	j->ctx = ctx;
	start(s, user_id, run_id, j);
}

void shelf_open(struct service *s, const char *user_id, const char *run_id, const char *path,
	shelf_open_cb *done, void *ctx)
{
	struct shelf_job *j = xnew(struct shelf_job);

	j->path = xstrdup(path);
	j->opened = done;
	j->ctx = ctx;
	start(s, user_id, run_id, j);
}
