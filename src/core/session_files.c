/* What is done to the files of a session from outside is an errand, or a few: here uploads and
 * clones, and what all have in common. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/discard.h"
#include "base/err.h"
#include "base/str.h"
#include "core/errand.h"
#include "core/identity.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session_private.h"
#include "ipc/pack_write.h"

/* --- uploads --- */

struct upload {
	struct session *session;
	struct session_upload what;
	struct upload_limits limits;
	struct upload_result result;
	upload_cb *done;
	void *ctx;
};

static void free_upload(struct upload *u)
{
	for (size_t i = 0; i < u->what.n_sources; i++)
		free((char *)u->what.sources[i].name);
	free(u->what.sources);
	discard_fd(&u->what.fd);
	free(u);
}

static int feed_upload(void *ctx, int fd, struct err *err)
{
	struct upload *u = ctx;
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	int r = upload_pack(u->what.sources, u->what.n_sources, &u->limits, &w, &u->result, err);

	return r < 0 ? r : pack_write_end(&w, err);
}

const char *session_gone_code(int r)
{
	static const struct {
		int r;
		const char *code;
	} known[] = {
		{ -ECONNRESET, "runtime_unavailable" },
		{ -EAGAIN, "runtime_unavailable" },
		{ -ECANCELED, "session_not_found" },
		{ -ENOENT, "session_not_found" },
		{ -ENOTRECOVERABLE, "restore_unfinished" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].r == r)
			return known[i].code;
	}
	return NULL;
}

void session_files_problem(
	struct problem *p, const struct session *session, int r, const char *text)
{
	if (r == -ENOSPC || r == -EFBIG) {
		(void)problem_set(p, "workspace_cap_exceeded", "%s", text);
		problem_add(p, "limit_mb",
			json_integer(session ? (json_int_t)(session->workspace_bytes >> 20) : 0));
	} else if (r == -E2BIG || r == -EINVAL || r == -EEXIST || r == -ENOTDIR) {
		(void)problem_set(p, "invalid_upload", "%s", text);
	} else if (session_gone_code(r)) {
		(void)problem_set(p, session_gone_code(r), "%s", text);
	} else {
		(void)problem_set(p, "internal_error", "the files could not be changed: %s", text);
	}
}

void session_copy_problem(struct problem *p, const struct session *session,
	const struct session_copy *copy, int r, const char *text)
{
	const struct {
		int r;
		const char *code;
	} known[] = {
		{ -EFBIG, copy->too_large },
		{ -E2BIG, copy->too_large },
		{ -ENAMETOOLONG, copy->too_large },
		{ -EACCES, "invalid_request" },
		{ -ENOSPC, "insufficient_storage" },
		{ -EDQUOT, "insufficient_storage" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i].r != r)
			continue;
		(void)problem_set(
			p, known[i].code, "no %s of this workspace: %s", copy->what, text);
		if (r == -EFBIG)
			problem_add(p, "limit_mb", json_integer((json_int_t)copy->limit_mb));
		return;
	}
	session_files_problem(p, session, r, text);
}

bool session_is_usable(const struct session *session, struct problem *p)
{
	if (session->is_ending)
		(void)problem_set(p, "session_not_found", "the session is being deleted");
	else if (session->is_lost)
		(void)problem_set(p, "workspace_lost",
			"the files of this session were lost when the keeper ended; restore a "
			"snapshot, or make a new one");
	return p->status == 0;
}

bool session_is_still(const struct session *session, struct problem *p)
{
	if (session->n_runs == 0)
		return true;
	(void)problem_set(
		p, "session_has_active_runs", "the session has %zu active runs", session->n_runs);
	problem_add(p, "active_runs", json_integer((json_int_t)session->n_runs));
	problem_add(p, "session_id", json_string(session->row.id));
	return false;
}

bool session_is_quiet(const struct session *session, struct problem *p)
{
	return session_is_usable(session, p) && session_is_still(session, p);
}

static void on_uploaded(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct upload *u = ctx;
	struct service *s = u->session->service;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r == -EBADMSG) {
		(void)problem_set(&problem, "invalid_upload", "%s", text);
	} else if (r < 0) {
		session_files_problem(&problem, u->session, r, text);
	} else {
		metrics_add(s->metrics, METRIC_UPLOAD_BYTES, METRICS_LABELS(u->what.kind),
			(double)u->result.n_bytes);
		metrics_add(s->metrics, METRIC_UPLOAD_FILES, METRICS_LABELS(u->what.kind),
			(double)u->result.n_files);
	}
	u->done(u->ctx, &u->result, &problem);
	problem_fini(&problem);
	free_upload(u);
}

/* A door may have refused it before it was all there; here pass those of every door. */
static bool is_within_size(const struct session_upload *what, uint64_t max_mb, struct problem *p)
{
	uint64_t left = max_mb << 20;

	for (size_t i = 0; i < what->n_sources; i++) {
		if (what->sources[i].size > left) {
			(void)problem_set(p, "payload_too_large",
				"the upload is larger than the %llu MB that one may have",
				(unsigned long long)max_mb);
			problem_add(p, "limit_mb", json_integer((json_int_t)max_mb));
			return false;
		}
		left -= what->sources[i].size;
	}
	return true;
}

void session_put_files(
	struct session *session, struct session_upload *upload, upload_cb *done, void *ctx)
{
	const struct settings *c = session->service->settings;
	struct upload *u = xnew(struct upload);
	struct problem problem = { 0 };
	struct errand_plan plan = { .feed = feed_upload, .feed_ctx = u, .capture_fd = -1 };

	*u = (struct upload){ .session = session, .what = *upload, .done = done, .ctx = ctx };
	u->limits = (struct upload_limits){
		.max_bytes = session->workspace_bytes,
		.max_files = c->max_upload_files,
		.max_depth = c->max_upload_depth,
		.max_ratio = c->max_upload_ratio,
		.block_binaries = c->block_binaries,
		.allow = c->upload_binaries_allow,
		.ignore = c->upload_ignore,
	};
	if (session_is_usable(session, &problem) &&
		is_within_size(&u->what, c->max_upload_mb, &problem)) {
		errand_start(session, &plan, on_uploaded, u);
		return;
	}
	done(ctx, &u->result, &problem);
	problem_fini(&problem);
	free_upload(u);
}

/* --- clones --- */

struct cloning {
	struct session *from;
	int fd; /* the files, without a name */
	struct identity who;
	char *name; /* of the new one, or NULL */
	session_cb *done;
	void *ctx;
};

static void end_cloning(struct cloning *c, struct session *clone, struct problem *problem)
{
	discard_fd(&c->fd);
	c->done(c->ctx, clone, problem);
	problem_fini(problem);
	free(c->name);
	free(c);
}

static void on_clone_made(void *ctx, struct session *session, struct problem *problem)
{
	end_cloning(ctx, session, problem);
}

static void on_clone_read(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct cloning *c = ctx;
	struct problem problem = { 0 };
	struct session_wish wish = {
		.who = &c->who,
		.source = c->from->row.source,
		.name = c->name,
		.like = c->from,
		.files_fd = &c->fd,
	};

	(void)n_bytes;
	if (r < 0) {
		session_copy_problem(&problem, c->from,
			&(struct session_copy){
				"clone", "workspace_cap_exceeded", c->from->workspace_bytes >> 20 },
			r, text);
		end_cloning(c, NULL, &problem);
		return;
	}
	if (c->name)
		session_create_named(c->from->service, &wish, on_clone_made, c);
	else
		session_create(c->from->service, &wish, on_clone_made, c);
}

int session_nameless_file(const struct service *s)
{
	return openat(s->data_fd, "tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
}

/* A name that is taken is said before anything is copied; it is looked at again after that. */
static bool may_clone(const struct cloning *c, struct problem *problem)
{
	return session_is_quiet(c->from, problem) &&
	       (!c->name || session_name_is_free(c->from->service, c->name, &c->who, problem));
}

void session_clone(struct session *session, const struct identity *who, const char *name,
	session_cb *done, void *ctx)
{
	struct cloning *c = xnew(struct cloning);
	struct problem problem = { 0 };
	struct errand_plan plan = { .capture_max = session->workspace_bytes + (16u << 20) };

	*c = (struct cloning){ .from = session, .fd = -1, .who = *who, .done = done, .ctx = ctx };
	c->name = name ? xstrdup(name) : NULL;
	if (may_clone(c, &problem)) {
		c->fd = session_nameless_file(session->service);
		plan.capture_fd = c->fd < 0 ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
		if (plan.capture_fd < 0)
			(void)problem_set(&problem, "internal_error", "Failed to clone session");
	}
	if (problem.status)
		end_cloning(c, NULL, &problem);
	else
		errand_start(session, &plan, on_clone_read, c);
}
