#include "core/repository.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/feeder.h"
#include "core/git.h"
#include "core/git_url.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "ipc/pack_write.h"

#define KEPT_DIR  "meta/git"
#define PATH_SIZE 128u
#define COPY_SIZE (64u << 10)

/* One clone under way, in the service's list. */
struct repository {
	struct repository *next;
	struct service *service;
	struct repository_order order;
	repository_cb *done;
	void *ctx;
};

static void format_kept(char path[PATH_SIZE], const char *name)
{
	(void)snprintf(path, PATH_SIZE, KEPT_DIR "/%s", name);
}

/* --- in the thread --- */

static int clone_into(const struct repository *r, const char *dir, struct err *err)
{
	const struct settings *c = r->service->settings;
	const json_t *git = r->order.git;
	const char *patch = json_string_value(json_object_get(git, "patch"));
	char commit[GIT_COMMIT_SIZE + 1];
	struct git_request request = {
		.url = json_string_value(json_object_get(git, "url")),
		.ref = json_string_value(json_object_get(git, "ref")),
		.depth = (unsigned)json_integer_value(json_object_get(git, "depth")),
		.patch = patch,
		.patch_size = patch ? strlen(patch) : 0,
	};
	struct git_limits limits = {
		.allow = c->git_allow,
		.max_bytes = c->git_max_mb << 20,
		.timeout_sec = c->git_timeout_sec,
		.stop = &r->service->stops_clones,
	};

	return git_fetch(&request, &limits, dir, commit, err);
}

/* The count of entries, since the end mark that follows them one day has it, and the entries. */
static int pack_from(const char *dir, int fd, struct err *err)
{
	struct pack_writer w = { .fd = fd, .max_bytes = UINT64_MAX };
	AUTO_FD dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return err_errno(err, "open the repository");
	if (lseek(fd, sizeof(w.n_entries), SEEK_SET) < 0)
		return err_errno(err, "seek");
	int r = pack_write_tree(&w, "", dir_fd, err);
	if (r < 0)
		return r;
	if (pwrite(fd, &w.n_entries, sizeof(w.n_entries), 0) != sizeof(w.n_entries))
		return err_errno(err, "write the repository");
	return 0;
}

static int open_kept(const struct repository *r, struct err *err)
{
	int data_fd = r->service->data_fd;
	char path[PATH_SIZE];

	format_kept(path, r->order.name);
	if (mkdirat(data_fd, KEPT_DIR, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make " KEPT_DIR);
	int fd = openat(data_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_errno(err, "no room for the repository") : fd;
}

static int fetch_in_thread(void *ctx, int fd, struct err *err)
{
	const struct repository *r = ctx;
	char name[PATH_SIZE];

	(void)fd;
	AUTO_FD kept = open_kept(r, err);
	if (kept < 0)
		return kept == -EPERM || kept == -EINVAL ? -EIO : kept;
	(void)snprintf(name, sizeof(name), "tmp/git-%s", r->order.name);
	AUTO_FREE char *dir = service_path(r->service, name);
	int result = mkdir(dir, 0700) < 0 ? err_set(err, -EIO, "no room for the repository") : 0;
	if (result == 0)
		result = clone_into(r, dir, err);
	if (result == 0 && pack_from(dir, kept, err) < 0)
		result = -EIO;
	(void)fd_remove_tree(r->service->data_fd, name);
	if (result < 0) {
		format_kept(name, r->order.name);
		(void)unlinkat(r->service->data_fd, name, 0);
	}
	return result;
}

/* --- on the loop --- */

static void unlist(struct repository *r)
{
	struct repository **at = &r->service->repositories;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
}

static void end_fetch(struct repository *r, struct problem *problem)
{
	r->done(r->ctx, problem);
	problem_fini(problem);
	free(r);
}

static void on_fetched(void *ctx, int result, const struct err *err)
{
	struct repository *r = ctx;
	struct problem problem = { 0 };
	bool is_callers = result == -EINVAL || result == -EPERM;

	unlist(r);
	if (result == -ECANCELED)
		(void)problem_set(&problem, "shutting_down", "the server is about to end");
	else if (result < 0)
		(void)problem_set(
			&problem, is_callers ? "invalid_git" : "git_failed", "git: %s", err->text);
	end_fetch(r, &problem);
}

static int too_many(struct problem *p, const char *quota, unsigned limit, const char *what)
{
	(void)problem_set(p, "quota_exceeded", "too many %s", what);
	problem_add(p, "quota", json_string(quota));
	problem_add(p, "limit", json_integer(limit));
	p->retry_after = 5;
	return -1;
}

static int check_room(const struct service *s, const char *user_id, struct problem *p)
{
	static const char what[] = "repositories are being cloned";
	size_t n = 0;
	size_t n_own = 0;

	for (const struct repository *i = s->repositories; i; i = i->next) {
		n++;
		n_own += streq(i->order.user_id, user_id);
	}
	if (n_own >= REPOSITORY_FETCHES_PER_USER)
		return too_many(p, "clones_per_user", REPOSITORY_FETCHES_PER_USER, what);
	return n < REPOSITORY_FETCHES_MAX ? 0 : too_many(p, "clones", REPOSITORY_FETCHES_MAX, what);
}

int repository_check_runs(const struct service *s, const char *user_id, struct problem *problem)
{
	size_t n = 0;

	for (const struct run *i = s->runs; i; i = i->next)
		n += i->request.git && streq(i->row.user_id, user_id);
	return n < REPOSITORY_RUNS_PER_USER
		       ? 0
		       : too_many(problem, "runs_with_git", REPOSITORY_RUNS_PER_USER,
				 "runs with a repository wait or run");
}

void repository_fetch(
	struct service *s, const struct repository_order *order, repository_cb *done, void *ctx)
{
	struct repository *r = xnew(struct repository);
	struct problem problem = { 0 };

	*r = (struct repository){ .service = s, .order = *order, .done = done, .ctx = ctx };
	if (check_room(s, order->user_id, &problem) < 0) {
		end_fetch(r, &problem);
		return;
	}
	r->next = s->repositories;
	s->repositories = r;
	feeder_start(s->loop, -1, fetch_in_thread, on_fetched, r);
}

json_t *repository_shown(const json_t *git)
{
	char url[GIT_URL_MAX + 1];

	git_url_show(json_string_value(json_object_get(git, "url")), url, sizeof(url));
	return json_pack("{s:s, s:O*}", "url", url, "ref", json_object_get(git, "ref"));
}

static int send_entries(int kept, struct pack_writer *w, struct err *err)
{
	AUTO_FREE char *buffer = xcalloc(1, COPY_SIZE);

	for (;;) {
		ssize_t n = read(kept, buffer, COPY_SIZE);

		if (n < 0)
			return err_errno(err, "read the repository");
		if (n == 0)
			return 0;
		int r = pack_write_data(w, buffer, (size_t)n, err);
		if (r < 0)
			return r;
	}
}

int repository_send(
	const struct service *s, const char *name, struct pack_writer *w, struct err *err)
{
	char path[PATH_SIZE];
	uint64_t n_entries;

	format_kept(path, name);
	AUTO_FD kept = openat(s->data_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (kept < 0)
		return err_errno(err, "the repository of the run");
	if (read(kept, &n_entries, sizeof(n_entries)) != sizeof(n_entries))
		return err_set(err, -EIO, "the repository of the run is cut short");
	w->n_entries += n_entries;
	return send_entries(kept, w, err);
}

/* --- removal --- */

struct removal {
	int data_fd;
	char path[PATH_SIZE];
};

static int remove_in_thread(void *ctx, int fd, struct err *err)
{
	const struct removal *removal = ctx;

	(void)fd;
	if (unlinkat(removal->data_fd, removal->path, 0) < 0 && errno != ENOENT)
		return err_errno(err, "remove a repository");
	return 0;
}

static void on_removed(void *ctx, int r, const struct err *err)
{
	if (r < 0 && r != -ECANCELED)
		log_warn("%s", err->text);
	free(ctx);
}

void repository_remove(struct service *s, const char *name)
{
	struct removal *removal = xnew(struct removal);

	removal->data_fd = s->data_fd;
	format_kept(removal->path, name);
	feeder_start(s->loop, -1, remove_in_thread, on_removed, removal);
}

void repository_clear(struct service *s)
{
	int fd = openat(s->data_fd, KEPT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	for (const struct dirent *e; (e = readdir(dir));) {
		if (e->d_name[0] != '.' && !run_find(s, e->d_name, NULL))
			(void)unlinkat(dirfd(dir), e->d_name, 0);
	}
	(void)closedir(dir);
}
