/* Uploads into a session's workspace. The body is in a nameless file by the time we are asked;
 * here it becomes a list of sources, which a box takes from there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/sessions.h"
#include "base/err.h"
#include "base/str.h"
#include "core/feeder.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session.h"
#include "core/upload.h"
#include "http/multipart.h"

struct upload {
	struct exchange *x;
	int fd;
	uint64_t size;
	char boundary[MULTIPART_BOUNDARY_MAX + 1];
	struct upload_source *sources;
	size_t n_sources;
	const char *kind;
	char other[64]; /* the name of the first part that is not "files"; "" for none */
};

static void free_upload(struct upload *u)
{
	for (size_t i = 0; i < u->n_sources; i++)
		free((char *)u->sources[i].name);
	free(u->sources);
	close_fdp(&u->fd);
	free(u);
}

/* --- the answer --- */

static void on_put(void *ctx, const struct upload_result *r, struct problem *problem)
{
	struct exchange *x = ctx;

	if (problem->status) {
		reply_problem(x, problem);
		return;
	}
	json_t *o = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I}", "session_id", exchange_param(x, "id"),
		"bytes_received", (json_int_t)r->n_bytes, "file_count", (json_int_t)r->n_files,
		"skipped", (json_int_t)r->n_skipped, "ignored", (json_int_t)r->n_ignored,
		"binaries_blocked", (json_int_t)r->n_binaries);
	reply_json(x, 200, o);
}

/* Hand the sources over to the session, which may have been deleted meanwhile. */
static void put(struct upload *u)
{
	struct exchange *x = u->x;
	struct session *session = sessions_find(x);

	if (!session) {
		free_upload(u);
		return;
	}
	struct session_upload upload = {
		.sources = u->sources,
		.n_sources = u->n_sources,
		.kind = u->kind,
		.fd = take_fd(&u->fd),
	};
	u->sources = NULL;
	u->n_sources = 0;
	free_upload(u);
	session_put_files(session, &upload, on_put, x);
}

/* --- multipart/form-data: found in a thread, since all of it must be read --- */

static int add_part(void *ctx, const struct multipart_part *part)
{
	struct upload *u = ctx;

	if (!streq(part->name, "files") && !streq(part->name, "files[]")) {
		if (!u->other[0])
			(void)snprintf(u->other, sizeof(u->other), "%.63s", part->name);
		return 0;
	}
	struct upload_source *grown = realloc(u->sources, (u->n_sources + 1) * sizeof(*u->sources));
	if (!grown)
		return -ENOMEM;
	u->sources = grown;
	u->sources[u->n_sources++] = (struct upload_source){
		.fd = u->fd,
		.offset = part->offset,
		.size = part->size,
		.name = xstrdup(part->filename),
		.kind = UPLOAD_BY_NAME,
	};
	return 0;
}

static int scan(void *ctx, int fd, struct err *err)
{
	struct upload *u = ctx;

	(void)fd;
	return multipart_scan(u->fd, u->size, u->boundary, add_part, u, err);
}

static void on_scanned(void *ctx, int r, const struct err *err)
{
	struct upload *u = ctx;

	if (r == 0 && u->n_sources > 0) {
		put(u);
		return;
	}
	if (r == -EBADMSG || r == -E2BIG)
		reply_refusal(u->x, "invalid_upload", "the form is malformed: %s", err->text);
	else if (r < 0)
		reply_refusal(u->x, "internal_error", "the form could not be read");
	else if (u->other[0])
		reply_field(u->x, PROBLEM_IN_BODY, "files",
			"the form needs a part named 'files', not '%s'", u->other);
	else
		reply_field(u->x, PROBLEM_IN_BODY, "files", "the form needs a part named 'files'");
	free_upload(u);
}

static void take_form(struct upload *u)
{
	struct err err = { 0 };

	if (multipart_boundary(exchange_header(u->x, "content-type"), u->boundary, &err) < 0) {
		reply_refusal(u->x, "invalid_upload", "the form can not be read: %s", err.text);
		free_upload(u);
		return;
	}
	feeder_start(api_of(u->x)->service->loop, -1, scan, on_scanned, u);
}

/* --- the body is one thing --- */

static void take_whole(struct upload *u, enum upload_kind kind, const char *name)
{
	u->sources = xnew(struct upload_source);
	u->n_sources = 1;
	u->sources[0] = (struct upload_source){
		.fd = u->fd,
		.size = u->size,
		.name = name ? xstrdup(name) : NULL,
		.kind = kind,
	};
	put(u);
}

static void take_tar(struct upload *u)
{
	take_whole(u, UPLOAD_TAR, NULL);
}

static void take_zip(struct upload *u)
{
	take_whole(u, UPLOAD_ZIP, NULL);
}

static void take_file(struct upload *u)
{
	const char *path = exchange_query(u->x, "path");

	if (!path)
		path = exchange_header(u->x, "x-file-path");
	if (path && path[0]) {
		take_whole(u, UPLOAD_PLAIN, path);
		return;
	}
	reply_field(u->x, PROBLEM_IN_QUERY, "path",
		"must say where the file goes, here or in X-File-Path");
	free_upload(u);
}

/* --- POST /sessions/{id}/files --- */

static const struct kind {
	const char *type;
	const char *name; /* for counters */
	void (*take)(struct upload *u);
} kinds[] = {
	{ "multipart/form-data", "multipart", take_form },
	{ "application/x-tar", "tar", take_tar },
	{ "application/x-gtar", "tar", take_tar },
	{ "application/x-tgz", "tar", take_tar },
	{ "application/gzip", "tar", take_tar },
	{ "application/x-gzip", "tar", take_tar },
	{ "application/zip", "zip", take_zip },
	{ "application/x-zip-compressed", "zip", take_zip },
	{ "application/octet-stream", "plain", take_file },
};

static const struct kind *find_kind(const char *type)
{
	size_t size = strcspn(type, "; \t");

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strlen(kinds[i].type) == size && strncasecmp(kinds[i].type, type, size) == 0)
			return &kinds[i];
	}
	return NULL;
}

static void handle_upload(struct exchange *x)
{
	const char *type = exchange_header(x, "content-type");
	const struct kind *kind = type ? find_kind(type) : NULL;

	if (!sessions_find(x))
		return;
	if (!kind) {
		reply_refusal(x, "unsupported_media_type",
			"files come as multipart/form-data, application/x-tar, application/gzip, "
			"application/zip or application/octet-stream, not as '%.60s'",
			type ? type : "");
		return;
	}
	struct upload *u = xnew(struct upload);
	*u = (struct upload){ .x = x, .kind = kind->name };
	u->fd = fcntl(exchange_body_fd(x, &u->size), F_DUPFD_CLOEXEC, 0);
	if (u->fd >= 0) {
		kind->take(u);
		return;
	}
	reply_refusal(x, "internal_error", "no descriptor is free");
	free_upload(u);
}

const struct route routes_files[] = {
	{ "POST", API_BASE "/sessions/{id}/files", ACCESS_USER, BODY_FILE, 0, handle_upload,
		"path" },
	{ 0 },
};
