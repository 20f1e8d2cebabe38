/* One file out of a session's workspace. A box sends it as a pack stream into a nameless file of
 * ours, in which it is looked at in a thread: its size, kind and digest. It is served from there,
 * so that whoever takes it slowly holds no box and no memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/discard.h"
#include "base/err.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/errand.h"
#include "core/feeder.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session_private.h"
#include "ipc/pack.h"

/* What a stream of one file has beside its bytes: its head with a name, and the end mark. */
#define STREAM_EXTRA (2 * PACK_HEAD_SIZE + PACK_NAME_MAX)

struct fetch {
	struct pack_sink sink; /* first: a sink is a fetch */
	struct service *service;
	char *path;
	uint64_t max_bytes;
	struct session_file file;
	enum pack_kind kind; /* PACK_END: there is no such file */
	struct digest *digest;
	size_t n_head;
	char head[MIME_HEAD_SIZE];
	session_file_cb *done;
	void *ctx;
};

static void end(struct fetch *f, struct problem *problem)
{
	f->done(f->ctx, &f->file, problem);
	problem_fini(problem);
	discard_fd(&f->file.fd);
	digest_free(f->digest);
	free(f->path);
	free(f);
}

/* --- in the thread --- */

/* The box answers for a guest: only what was asked for counts, and only once. */
static int on_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct fetch *f = (struct fetch *)sink;

	if (f->kind != PACK_END || !streq(e->name, f->path) ||
		(e->kind != PACK_FILE && e->kind != PACK_SKIP))
		return err_set(err, -EBADMSG, "not the file that was asked for");
	f->kind = e->kind;
	f->file.size = e->size;
	f->file.offset = PACK_HEAD_SIZE + strlen(e->name);
	return 0;
}

static int on_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	struct fetch *f = (struct fetch *)sink;
	size_t room = sizeof(f->head) - f->n_head;

	(void)err;
	digest_add(f->digest, data, size);
	memcpy(f->head + f->n_head, data, size < room ? size : room);
	f->n_head += size < room ? size : room;
	return 0;
}

static int on_finish(struct pack_sink *sink, struct err *err)
{
	(void)sink;
	(void)err;
	return 0;
}

static int look(void *ctx, int fd, struct err *err)
{
	struct fetch *f = ctx;

	(void)fd;
	int r = pack_read_file(f->file.fd, &f->sink, err);
	if (r < 0)
		return r;
	digest_end(f->digest, f->file.sha256);
	mime_of(f->path, f->head, f->n_head, f->file.mime);
	return 0;
}

/* --- on the loop --- */

static void set_too_large(struct fetch *f, struct problem *problem)
{
	(void)problem_set(problem, "payload_too_large",
		"the file is larger than the %llu bytes that can be fetched at once",
		(unsigned long long)f->max_bytes);
	problem_add(problem, "limit_bytes", json_integer((json_int_t)f->max_bytes));
}

/* A file which somebody is just writing. */
static void set_changed(struct problem *problem)
{
	(void)problem_set(
		problem, "runtime_unavailable", "the file changed while it was read; try again");
	problem->retry_after = 1;
}

static void on_looked(void *ctx, int r, const struct err *err)
{
	struct fetch *f = ctx;
	struct problem problem = { 0 };

	(void)err;
	if (r == -ECANCELED) {
		(void)problem_set(&problem, "shutting_down", "the server is about to end");
	} else if (r == -EBADMSG) {
		set_changed(&problem); /* it ends early */
	} else if (r < 0) {
		(void)problem_set(&problem, "internal_error", "the file could not be read");
	} else if (f->kind == PACK_END) {
		(void)problem_set(&problem, "file_not_found", "there is no such file");
	} else if (f->kind == PACK_SKIP || f->file.size > f->max_bytes) {
		set_too_large(f, &problem);
	}
	end(f, &problem);
}

/* Why the box, or the file that it writes to, did not do it. */
static void set_failure(struct fetch *f, int r, const char *text, struct problem *problem)
{
	const char *code = r == -ENOSPC ? "insufficient_storage" : session_gone_code(r);

	if (r == -EFBIG)
		set_too_large(f, problem);
	else if (r == -ESTALE)
		set_changed(problem);
	else if (code)
		(void)problem_set(problem, code, "%s", text);
	else
		(void)problem_set(
			problem, "internal_error", "the file could not be read: %s", text);
}

static void on_fetched(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct fetch *f = ctx;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r == 0) {
		feeder_start(f->service->loop, -1, look, on_looked, f);
		return;
	}
	set_failure(f, r, text, &problem);
	end(f, &problem);
}

static bool may_fetch(const struct session *session, const char *path, struct problem *p)
{
	if (!artifact_path_is_safe(path))
		(void)problem_set(p, "invalid_path", "a file can not have this path");
	return p->status == 0 && session_is_usable(session, p) &&
	       service_check_space(session->service, p) == 0;
}

void session_get_file(struct session *session, const char *path, session_file_cb *done, void *ctx)
{
	struct fetch *f = xnew(struct fetch);
	struct problem problem = { 0 };

	*f = (struct fetch){ .service = session->service, .done = done, .ctx = ctx };
	f->sink = (struct pack_sink){ on_begin, on_data, on_finish };
	f->kind = PACK_END;
	f->path = xstrdup(path);
	f->digest = digest_new();
	f->max_bytes = session->service->settings->max_artifact_file_bytes;
	f->file.fd = -1;
	struct errand_plan plan = { .only = f->path, .capture_fd = -1 };
	plan.capture_max = f->max_bytes + STREAM_EXTRA;
	if (may_fetch(session, path, &problem)) {
		f->file.fd = session_nameless_file(session->service);
		plan.capture_fd = f->file.fd < 0 ? -1 : fcntl(f->file.fd, F_DUPFD_CLOEXEC, 3);
		if (plan.capture_fd < 0)
			(void)problem_set(&problem, "internal_error", "no file can be made");
	}
	if (problem.status)
		end(f, &problem);
	else
		errand_start(session, &plan, on_fetched, f);
}
