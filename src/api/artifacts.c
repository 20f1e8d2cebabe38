/* /runs/{id}/artifacts: the files that a run left behind. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/download.h"
#include "api/links.h"
#include "api/reply.h"
#include "api/shelf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "http/range.h"

/* Smaller ones are not worth compressing. */
#define GZIP_MIN_BYTES 1024u

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

static void set_headers(struct exchange *x, const struct artifact *a, bool is_compressed)
{
	const char *path = exchange_param(x, "path");
	AUTO_FREE char *name = xcalloc(1, DOWNLOAD_DISPOSITION_SIZE(strlen(path)));
	char tag[DOWNLOAD_ETAG_SIZE];

	download_etag(a->sha256, is_compressed, tag);
	exchange_set_header(x, "ETag", tag);
	exchange_set_header(x, "Cache-Control", "private");
	if (mime_is_text(a->mime))
		exchange_set_header(x, "Vary", "Accept-Encoding");
	download_disposition(path, name);
	exchange_set_header(x, "Content-Disposition", name);
	exchange_set_header(x, "X-Content-Type-Options", "nosniff");
	exchange_set_header(x, "Accept-Ranges", "bytes");
}

static void set_range(struct exchange *x, const char *part, uint64_t size)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "bytes %s/%" PRIu64, part, size);
	exchange_set_header(x, "Content-Range", text);
}

static void send_part(struct exchange *x, struct artifact *a, uint64_t offset, uint64_t size)
{
	char part[48];

	(void)snprintf(part, sizeof(part), "%" PRIu64 "-%" PRIu64, offset, offset + size - 1);
	set_headers(x, a, false);
	set_range(x, part, a->size);
	exchange_reply_file(x, 206, a->mime, take_fd(&a->fd), offset, size);
}

/* All of it, or that it is still the same. */
static void send_whole(struct exchange *x, struct artifact *a)
{
	bool is_compressed = a->size > GZIP_MIN_BYTES && mime_is_text(a->mime) &&
			     download_takes_gzip(exchange_header(x, "accept-encoding"));

	set_headers(x, a, is_compressed);
	if (download_is_known(exchange_header(x, "if-none-match"), a->sha256))
		exchange_reply_bytes(x, 304, NULL, NULL, 0);
	else if (is_compressed)
		exchange_reply_gzip(x, 200, a->mime, take_fd(&a->fd), a->size);
	else
		exchange_reply_file(x, 200, a->mime, take_fd(&a->fd), 0, a->size);
}

/* A Range does not count for who has the file already, or has another one. */
static void answer(struct exchange *x, struct artifact *a)
{
	const char *range = exchange_header(x, "range");
	uint64_t offset = 0;
	uint64_t size = 0;

	if (!download_may_resume(exchange_header(x, "if-range"), a->sha256) ||
		download_is_known(exchange_header(x, "if-none-match"), a->sha256))
		range = NULL;
	enum range_verdict verdict = range_parse(range, a->size, &offset, &size);
	if (verdict == RANGE_WHOLE) {
		send_whole(x, a);
	} else if (verdict == RANGE_PART) {
		send_part(x, a, offset, size);
	} else {
		set_range(x, "*", a->size);
		reply_refusal(x, "invalid_range",
			"the range is not one of bytes within this file of %" PRIu64, a->size);
	}
}

static void on_open(void *ctx, int r, const struct artifact *artifact)
{
	struct exchange *x = ctx;
	struct artifact a = *artifact;

	if (r == 0)
		answer(x, &a);
	else if (r == -ENOENT)
		reply_refusal(x, "artifact_not_found", "there is no such artifact");
	else
		reply_refusal(x, "internal_error", "the artifact could not be read");
	close_fdp(&a.fd);
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
	{ "GET", API_BASE "/runs/{id}/artifacts", ACCESS_USER, BODY_NONE, 0, handle_list },
	{ "GET", API_BASE "/runs/{id}/artifacts/{path*}", ACCESS_USER, BODY_NONE, 0,
		handle_download },
	{ 0 },
};
