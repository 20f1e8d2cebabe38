/* Repositories: cloned on the server, in a thread, and then put into a workspace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/errand.h"
#include "core/git.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session_private.h"
#include "ipc/pack_write.h"

struct fetch {
	struct session *session;
	const json_t *git;
	char *dir;
	char commit[GIT_COMMIT_SIZE + 1];
	session_cb *done;
	void *ctx;
};

static void end_fetch(struct fetch *f, struct problem *problem)
{
	const char *name = strrchr(f->dir, '/') + 1;
	AUTO_FD tmp =
		openat(f->session->service->data_fd, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (tmp >= 0)
		(void)fd_remove_tree(tmp, name);
	free(f->dir);
	f->done(f->ctx, f->session, problem);
	problem_fini(problem);
	free(f);
}

static int fetch_in_thread(void *ctx, int fd, struct err *err)
{
	struct fetch *f = ctx;
	const struct settings *c = f->session->service->settings;
	const char *patch = json_string_value(json_object_get(f->git, "patch"));
	struct git_request request = {
		.url = json_string_value(json_object_get(f->git, "url")),
		.ref = json_string_value(json_object_get(f->git, "ref")),
		.depth = (unsigned)json_integer_value(json_object_get(f->git, "depth")),
		.patch = patch,
		.patch_size = patch ? strlen(patch) : 0,
	};
	struct git_limits limits = {
		.allow = c->git_allow,
		.max_bytes = c->git_max_mb << 20,
		.timeout_sec = c->git_timeout_sec,
	};

	(void)fd;
	return git_fetch(&request, &limits, f->dir, f->commit, err);
}

static int feed_tree(void *ctx, int fd, struct err *err)
{
	const struct fetch *f = ctx;
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	AUTO_FD dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "open the repository");
	int r = pack_write_tree(&w, "", dir, err);
	return r < 0 ? r : pack_write_end(&w, err);
}

static void on_tree_in(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct fetch *f = ctx;
	struct problem problem = { 0 };

	(void)n_bytes;
	if (r < 0)
		session_files_problem(&problem, f->session, r, text);
	end_fetch(f, &problem);
}

static void on_fetched(void *ctx, int r, const struct err *err)
{
	struct fetch *f = ctx;
	struct session *session = f->session;
	struct problem problem = { 0 };
	struct errand_plan plan = { .feed = feed_tree, .feed_ctx = f, .capture_fd = -1 };

	session->is_fetching = false;
	if (r < 0)
		(void)problem_set(&problem,
			r == -EINVAL || r == -EPERM ? "invalid_git" : "git_failed", "git: %s",
			err->text);
	if (r == 0 && session_is_usable(session, &problem))
		errand_start(session, &plan, on_tree_in, f);
	else
		end_fetch(f, &problem);
	session->n_work--;
	session_check_ending(session);
}

static int check_room(const struct session *session, struct problem *p)
{
	size_t n = 0;
	size_t n_own = 0;

	for (const struct session *i = session->service->sessions; i; i = i->next) {
		n += i->is_fetching;
		n_own += i->is_fetching && streq(i->row.user_id, session->row.user_id);
	}
	if (n < SESSION_FETCHES_MAX && n_own < SESSION_FETCHES_PER_USER)
		return 0;
	bool is_own = n_own >= SESSION_FETCHES_PER_USER;
	(void)problem_set(p, "quota_exceeded", "too many repositories are being cloned");
	problem_add(p, "quota", json_string(is_own ? "clones_per_user" : "clones"));
	problem_add(
		p, "limit", json_integer(is_own ? SESSION_FETCHES_PER_USER : SESSION_FETCHES_MAX));
	p->retry_after = 5;
	return -1;
}

void session_fetch_git(struct session *session, const json_t *git, session_cb *done, void *ctx)
{
	struct fetch *f = xnew(struct fetch);
	struct problem problem = { 0 };
	char name[64];

	*f = (struct fetch){ .session = session, .git = git, .done = done, .ctx = ctx };
	(void)snprintf(name, sizeof(name), "tmp/git-%s", session->workspace);
	f->dir = service_path(session->service, name);
	if (check_room(session, &problem) == 0 && mkdir(f->dir, 0700) < 0)
		(void)problem_set(&problem, "internal_error", "no room for the repository");
	if (problem.status) {
		end_fetch(f, &problem);
		return;
	}
	session->is_fetching = true;
	session->n_work++;
	feeder_start(session->service->loop, -1, fetch_in_thread, on_fetched, f);
}
