/* Restoring: the files of a snapshot in the place of all others. A session whose workspace is lost
 * gets a new one first.
 *
 * The box that does it can be killed half way, also together with us. So it is marked on disk for
 * as long, beside the snapshots, and made good by the next box: box/commit.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/discard.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/errand.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session_private.h"
#include "ipc/spec.h"

/* --- marks --- */

static const char *const mark_names[] = {
	[SESSION_RESTORING] = "restoring",
	[SESSION_REMAKING] = "remaking",
};

static void mark_path(const struct session *session, size_t mark, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s/snapshots/%s/%s", session->row.user_id, session->row.id,
		mark_names[mark]);
}

/* The digits that nobody could know before: whatever has them in its name is what a box left. */
static void make_digits(struct session *session)
{
	char id[RUN_ID_SIZE + 1];

	spec_make_id(id);
	(void)snprintf(session->change, sizeof(session->change), "%.*s", SPEC_CHANGE_SIZE, id);
}

static int write_mark(struct session *session, enum session_mark mark)
{
	char path[256];

	if (mark == SESSION_WHOLE)
		return 0;
	if (session->mark == SESSION_WHOLE)
		make_digits(session);
	mark_path(session, mark, path, sizeof(path));
	AUTO_FD fd = openat(session->service->data_fd, path,
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, session->change, SPEC_CHANGE_SIZE);
	if (r < 0)
		(void)unlinkat(session->service->data_fd, path, 0);
	return r;
}

static int set_mark(struct session *session, enum session_mark mark)
{
	char path[256];
	int r = session->mark == mark ? 0 : write_mark(session, mark);

	if (r < 0)
		return r;
	session->mark = mark;
	for (size_t i = SESSION_WHOLE + 1; i < ARRAY_SIZE(mark_names); i++) {
		mark_path(session, i, path, sizeof(path));
		if (i != (size_t)mark)
			(void)unlinkat(session->service->data_fd, path, 0);
	}
	return 0;
}

/* What has no digits was being written, and nothing had begun. */
static bool read_digits(struct session *session, size_t mark)
{
	char path[256];
	char digits[SPEC_CHANGE_SIZE + 2];

	mark_path(session, mark, path, sizeof(path));
	if (fd_read_text(session->service->data_fd, path, digits, sizeof(digits)) < 0 ||
		!str_is_hex(digits, SPEC_CHANGE_SIZE))
		return false;
	memcpy(session->change, digits, sizeof(session->change));
	return true;
}

void session_read_mark(struct session *session)
{
	for (size_t i = SESSION_WHOLE + 1; i < ARRAY_SIZE(mark_names); i++) {
		if (read_digits(session, i))
			session->mark = (enum session_mark)i;
	}
}

/* --- making good --- */

/* Each box for its files makes good first what another one left; this one does nothing else. */
static void start_mending(struct session *session, errand_cb *done, void *ctx)
{
	struct errand_plan plan = { .capture_fd = -1 };

	session->n_mends++;
	errand_start(session, &plan, done, ctx);
}

/* Runs waited for it, one way or the other; those of a session that ends are canceled. */
static void give_turns(const struct session *session)
{
	if (!session->is_ending && !session_is_mending(session))
		run_files_are_back(session);
}

static void note_mended(struct session *session, int r, const char *text)
{
	session->n_mends--;
	if (r < 0)
		log_warn("session %s: what a restore left half done stays so: %s", session->row.id,
			text);
	else if (session->n_restores == 0)
		(void)set_mark(session, SESSION_WHOLE);
}

static void on_mended(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	(void)n_bytes;
	note_mended(ctx, r, text);
	give_turns(ctx);
}

bool session_is_mending(const struct session *session)
{
	return session->mark != SESSION_WHOLE && session->n_restores + session->n_mends > 0;
}

void session_mend_again(struct session *session)
{
	if (session->mark == SESSION_RESTORING && !session_is_mending(session))
		start_mending(session, on_mended, session);
}

void session_mend(struct session *session)
{
	struct service *s = session->service;

	if (session->is_ending)
		return;
	if (session->mark == SESSION_RESTORING && !session->is_lost) {
		start_mending(session, on_mended, session);
		return;
	}
	if (!session->is_lost)
		s->runtime->drop_workspace(s->host, session->workspace);
	session->is_lost = true;
	(void)set_mark(session, SESSION_WHOLE);
}

/* --- restoring --- */

struct restoring {
	struct session *session;
	int fd;
	bool is_marked;
	session_cb *done;
	void *ctx;
	struct problem problem;
};

static void end_restoring(struct restoring *w)
{
	give_turns(w->session);
	w->done(w->ctx, w->session, &w->problem);
	problem_fini(&w->problem);
	free(w);
}

static int feed_file(void *ctx, int fd, struct err *err)
{
	const struct restoring *r = ctx;
	off_t at = 0;
	struct stat st;

	if (fstat(r->fd, &st) < 0)
		return err_errno(err, "look at the snapshot");
	while (at < st.st_size) {
		ssize_t n = sendfile(fd, r->fd, &at, (size_t)(st.st_size - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "send the snapshot");
		if (n == 0)
			return err_set(err, -EIO, "the snapshot shrank");
	}
	return 0;
}

static void note_restored(struct session *session)
{
	if (session->mark == SESSION_REMAKING) {
		session->is_lost = false;
		session_set_text(&session->row.state, "active");
	}
	(void)set_mark(session, session->n_restores > 0 ? SESSION_RESTORING : SESSION_WHOLE);
}

static void on_made_good(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct restoring *w = ctx;

	(void)n_bytes;
	note_mended(w->session, r, text);
	end_restoring(w);
}

/* It did not work, which is answered when all is as it was. */
static void make_good(struct restoring *w)
{
	struct session *session = w->session;
	struct service *s = session->service;

	/* While the keeper is away, or the session ends: whoever finds it again finds the mark,
	 * too. */
	if (session->is_ending || !s->is_up || session->mark == SESSION_WHOLE ||
		session->n_restores > 0) {
		end_restoring(w);
		return;
	}
	if (session->mark == SESSION_RESTORING) {
		start_mending(session, on_made_good, w);
		return;
	}
	s->runtime->drop_workspace(s->host, session->workspace);
	(void)set_mark(session, SESSION_WHOLE);
	end_restoring(w);
}

static void on_restored(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct restoring *w = ctx;
	struct session *session = w->session;

	(void)n_bytes;
	discard_fd(&w->fd);
	session->n_restores -= w->is_marked;
	if (r == 0 && w->is_marked && session->mark == SESSION_WHOLE) {
		r = -ECONNRESET; /* session_mend() took the mark away */
		text = "the workspace went with the keeper";
	}
	if (r < 0)
		session_files_problem(&w->problem, session, r, text);
	else if (w->is_marked)
		note_restored(session);
	if (r < 0 && w->is_marked)
		make_good(w);
	else
		end_restoring(w);
}

static struct restoring *new_restoring(struct session *session, int fd, session_cb *done, void *ctx)
{
	struct restoring *w = xnew(struct restoring);

	*w = (struct restoring){ .session = session, .fd = fd, .done = done, .ctx = ctx };
	return w;
}

static void start_restoring(struct restoring *w)
{
	struct errand_plan plan = {
		.feed = feed_file,
		.feed_ctx = w,
		.clears = true,
		.capture_fd = -1,
	};

	errand_start(w->session, &plan, on_restored, w);
}

void session_restore_from(struct session *session, int fd, session_cb *done, void *ctx)
{
	start_restoring(new_restoring(session, fd, done, ctx));
}

static void on_workspace(void *ctx, int code, const char *text)
{
	struct restoring *w = ctx;
	struct session *session = w->session;

	/* Another restore may have made it, and waits or is under way. */
	if (code < 0 && code != -EEXIST)
		on_restored(w, -ECONNRESET, text, 0);
	else if (session->is_ending || session->is_gone)
		on_restored(w, -ECANCELED, "the session is being deleted", 0);
	else
		start_restoring(w);
	session->n_work--;
	session_check_ending(session);
}

static void remake(struct restoring *w)
{
	struct session *session = w->session;
	struct service *s = session->service;

	session->n_work++;
	if (s->host)
		s->runtime->make_workspace(
			s->host, session->workspace, session->workspace_bytes, on_workspace, w);
	else
		on_workspace(w, -EAGAIN, "the keeper is not there");
}

static int open_files(struct session *session, const char *snapshot_id, struct problem *problem)
{
	bool remakes = session->is_lost && !session->is_ending;

	if (!(remakes ? session_is_still(session, problem) : session_is_quiet(session, problem)))
		return -1;
	AUTO_FD fd = session_open_snapshot(session, snapshot_id);
	if (fd < 0)
		return problem_set(
			problem, "snapshot_not_found", "Snapshot not found: %.64s", snapshot_id);
	if (set_mark(session, remakes ? SESSION_REMAKING : SESSION_RESTORING) < 0)
		return problem_set(problem, "insufficient_storage",
			"it could not be noted that the snapshot is being restored");
	return take_fd(&fd);
}

void session_restore(struct session *session, const char *snapshot_id, session_cb *done, void *ctx)
{
	struct problem problem = { 0 };
	int fd = open_files(session, snapshot_id, &problem);

	if (fd < 0) {
		done(ctx, NULL, &problem);
		problem_fini(&problem);
		return;
	}
	struct restoring *w = new_restoring(session, fd, done, ctx);
	w->is_marked = true;
	session->n_restores++;
	if (session->is_lost)
		remake(w);
	else
		start_restoring(w);
}
