/* /runs/{id}/artifacts: the files that a run left behind. */
#include <errno.h>

#include "api/api.h"
#include "api/attachment.h"
#include "api/links.h"
#include "api/reply.h"
#include "api/shelf.h"
#include "base/cleanup.h"
#include "core/artifact.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"

/* --- the list --- */

static void on_list(void *ctx, int r, json_t *items)
{
	struct exchange *x = ctx;

	if (r < 0) {
		reply_refusal(x, "internal_error", "the artifacts could not be listed");
		return;
	}
	for (size_t i = 0; i < json_array_size(items); i++) {
		json_t *item = json_array_get(items, i);
		const char *path = json_string_value(json_object_get(item, "path"));
		AUTO_FREE char *url = links_artifact(api_of(x), exchange_param(x, "id"), path);

		(void)json_object_set_new(item, "download_url", json_string(url));
	}
	reply_json(x, 200, json_pack("{s:o}", "items", items));
}

static void on_row_to_list(void *ctx, const struct run_row *row, struct problem *problem)
{
	struct exchange *x = ctx;

	if (!row)
		reply_problem(x, problem);
	else
		shelf_list(api_of(x)->service, row->user_id, row->id, on_list, x);
}

static void handle_list(struct exchange *x)
{
	const char *id = exchange_param(x, "id");

	api_note_run(x, id);
	run_get(api_of(x)->service, id, api_who(x), on_row_to_list, x);
}

/* --- one of them --- */

static void on_open(void *ctx, int r, const struct artifact *artifact)
{
	struct exchange *x = ctx;
	struct attachment a = {
		.path = exchange_param(x, "path"),
		.mime = artifact->mime,
		.sha256 = artifact->sha256,
		.fd = artifact->fd,
		.size = artifact->size,
	};

	if (r == 0)
		attachment_reply(x, &a);
	else if (r == -ENOENT)
		reply_refusal(x, "artifact_not_found", "there is no such artifact");
	else
		reply_refusal(x, "internal_error", "the artifact could not be read");
}

static void on_row_to_open(void *ctx, const struct run_row *row, struct problem *problem)
{
	struct exchange *x = ctx;

	if (!row)
		reply_problem(x, problem);
	else
		shelf_open(api_of(x)->service, row->user_id, row->id, exchange_param(x, "path"),
			on_open, x);
}

static void handle_download(struct exchange *x)
{
	const char *id = exchange_param(x, "id");

	api_note_run(x, id);
	/* As it came too: what a proxy before us would have made of it. */
	if (!artifact_path_is_safe(exchange_param(x, "path")) ||
		!artifact_path_is_safe(exchange_param_raw(x, "path"))) {
		reply_refusal(x, "invalid_path", "an artifact can not have this path");
		return;
	}
	run_get(api_of(x)->service, id, api_who(x), on_row_to_open, x);
}

const struct route routes_artifacts[] = {
	{ "GET", API_BASE "/runs/{id}/artifacts", ACCESS_USER, BODY_NONE, 0, handle_list, "" },
	{ "GET", API_BASE "/runs/{id}/artifacts/{path*}", ACCESS_USER, BODY_NONE, 0,
		handle_download },
	{ 0 },
};
