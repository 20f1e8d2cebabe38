/* The steps of a fetch, in order. Files are written last and once, straight from an index in
 * memory: it is the tree, with the patch applied to that and not to files, without links that
 * leave the workspace. So nothing that a repository or patch holds is followed on disk. */
#include "core/git.h"

#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/git_files.h"
#include "core/git_url.h"
#include "core/git_wire.h"

/* What we fetch is put here, out of the way of all names a repository has. */
#define TARGET      "refs/belljar/target"
#define REF_MAX     255u
#define SLACK_BYTES (4u << 20) /* of talk around the objects */

/* Newer versions have renamed their version. */
#if defined(LIBGIT2_VERSION_NUMBER) || LIBGIT2_VER_MINOR >= 7
#define HAS_DEPTH 1
#else
#define HAS_DEPTH 0
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_result;

/* A file:// repository may be anybody's that the server can read: who allows the scheme means
 * just that. libgit2 checks owners since `git` runs what a configuration names; here nothing of
 * that repository runs. libgit2 has no hooks and no commands of the configuration's, its local
 * transport but copies objects, and filters are off where files are written, which is in a
 * repository of our own. */
static bool trust_all_owners(void)
{
	return git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0) == 0;
}

static void set_up(void)
{
	static const int levels[] = { GIT_CONFIG_LEVEL_PROGRAMDATA, GIT_CONFIG_LEVEL_SYSTEM,
		GIT_CONFIG_LEVEL_XDG, GIT_CONFIG_LEVEL_GLOBAL };

	if (git_libgit2_init() < 0) {
		once_result = -EIO;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "") < 0)
			once_result = -EIO;
	if (!trust_all_owners() || git_libgit2_opts(GIT_OPT_SET_TEMPLATE_PATH, "") < 0 ||
		git_libgit2_opts(GIT_OPT_SET_PACK_MAX_OBJECTS, (size_t)GIT_OBJECTS_MAX) < 0)
		once_result = -EIO;
	if (once_result == 0)
		once_result = git_wire_register();
}

struct fetch {
	const struct git_request *request;
	const struct git_limits *limits;
	struct git_wire wire;
	git_repository *repo;
	git_remote *remote;
	bool is_commit; /* the ref is a commit id */
};

static void fetch_fini(struct fetch *f)
{
	git_wire_enter(NULL);
	git_remote_free(f->remote);
	git_repository_free(f->repo);
}

/* --- errors --- */

static const struct meaning {
	int git;
	int code;
} meanings[] = {
	{ GIT_ENOTFOUND, -ENOENT },
	{ GIT_EAUTH, -EACCES },
	{ GIT_ECERTIFICATE, -EPERM },
	{ GIT_EAPPLYFAIL, -EINVAL },
	{ GIT_EINVALIDSPEC, -EINVAL },
	{ GIT_EEXISTS, -EEXIST },
};

static int code_of(int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].git == r)
			return meanings[i].code;
	return -EIO;
}

/* Our own reason, if it was us who stopped it; else what libgit2 says, without secrets. */
static int refuse(const struct fetch *f, int r, const char *what, struct err *err)
{
	const git_error *last = git_error_last();
	char text[160];

	if (f->wire.failure.code < 0)
		return err_set(err, f->wire.failure.code, "%s", f->wire.failure.text);
	(void)snprintf(text, sizeof(text), "%s", last && last->message ? last->message : "failed");
	git_url_scrub(f->request->url, text);
	for (char *p = text; *p; p++)
		*p = (unsigned char)*p < ' ' ? ' ' : *p;
	return err_set(err, code_of(r), "%s: %s", what, text);
}

/* --- limits, while it goes on --- */

static int check_time(struct fetch *f)
{
	if (git_wire_must_stop(&f->wire))
		return err_set(&f->wire.failure, -ECANCELED, "it was stopped");
	if (clock_monotonic_ns() < f->wire.deadline_ns)
		return 0;
	return err_set(&f->wire.failure, -ETIMEDOUT, "the repository took longer than %llu seconds",
		(unsigned long long)f->limits->timeout_sec);
}

static int on_progress(const git_indexer_progress *stats, void *ctx)
{
	struct fetch *f = ctx;

	if (stats->received_bytes > f->limits->max_bytes)
		return err_set(&f->wire.failure, -EFBIG,
			"the repository is larger than the limit of %llu bytes",
			(unsigned long long)f->limits->max_bytes);
	return check_time(f);
}

static int on_words(const char *text, int size, void *ctx)
{
	(void)text;
	(void)size;
	return check_time(ctx);
}

static int on_pack(int stage, uint32_t current, uint32_t total, void *ctx)
{
	(void)stage;
	(void)current;
	(void)total;
	return check_time(ctx);
}

static void set_callbacks(struct fetch *f, git_remote_callbacks *c)
{
	c->transfer_progress = on_progress;
	c->sideband_progress = on_words;
	c->pack_progress = on_pack;
	c->payload = f;
}

/* --- the ref --- */

static bool ref_is_good(const char *ref)
{
	char name[REF_MAX + 16];
	int valid = 0;

	if (!*ref || strlen(ref) > REF_MAX || *ref == '-')
		return false;
	(void)snprintf(name, sizeof(name), "refs/heads/%s", ref);
	return git_reference_name_is_valid(&valid, name) == 0 && valid;
}

static bool is_hex(const char *ref)
{
	return strspn(ref, "0123456789abcdefABCDEF") == strlen(ref);
}

/* A whole id can not be a name we look for; a part of one is nothing that a host can be asked for.
 */
static bool is_commit_id(const char *ref)
{
	return ref && strlen(ref) == GIT_OID_HEXSZ && is_hex(ref);
}

static bool is_named(const git_remote_head *head, const char *prefix, const char *ref)
{
	const char *rest = str_after(head->name, prefix);

	return rest && streq(rest, ref);
}

/* As git itself looks for a name: as it is, then tags, then branches. */
static const git_remote_head *find_ref(const git_remote_head **heads, size_t n, const char *ref)
{
	static const char *const prefixes[] = { "", "refs/", "refs/tags/", "refs/heads/" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		for (size_t j = 0; j < n; j++)
			if (is_named(heads[j], prefixes[i], ref))
				return heads[j];
	return NULL;
}

static int resolve_ref(struct fetch *f, char *ret, size_t size, struct err *err)
{
	const char *ref = f->request->ref ? f->request->ref : "HEAD";
	const git_remote_head **heads = NULL;
	size_t n = 0;
	int r = git_remote_ls(&heads, &n, f->remote);

	if (r < 0)
		return refuse(f, r, "list the repository", err);
	const git_remote_head *found = find_ref(heads, n, ref);
	if (!found)
		return err_set(err, -ENOENT, "the repository has no branch or tag '%.100s'%s", ref,
			is_hex(ref) ? "; a commit needs its full id of 40 digits" : "");
	int used = snprintf(ret, size, "+%s:" TARGET, found->name);
	return used > 0 && (size_t)used < size
		       ? 0
		       : err_set(err, -EINVAL, "the name of the ref is too long");
}

/* --- the steps --- */

static int check_request(struct fetch *f, struct err *err)
{
	const struct git_request *q = f->request;
	int r = git_url_check(q->url, f->limits->allow, err);

	if (r < 0)
		return r;
	if (q->ref && !ref_is_good(q->ref))
		return err_set(err, -EINVAL, "the ref is not a name a branch or tag can have");
	if (q->patch && q->patch_size > GIT_PATCH_MAX)
		return err_set(err, -E2BIG, "the patch is larger than %u bytes", GIT_PATCH_MAX);
	f->is_commit = is_commit_id(q->ref);
	for (char *const *p = f->limits->allow; *p; p++)
		f->wire.allow_private |= streq(*p, "private");
	f->wire.max_bytes = f->limits->max_bytes + SLACK_BYTES;
	f->wire.stop = f->limits->stop;
	f->wire.deadline_ns = clock_monotonic_ns() + f->limits->timeout_sec * 1000000000u;
	return 0;
}

static int make_repository(struct fetch *f, const char *into_dir, struct err *err)
{
	git_repository_init_options o = GIT_REPOSITORY_INIT_OPTIONS_INIT;
	git_remote_create_options remote = GIT_REMOTE_CREATE_OPTIONS_INIT;

	o.flags = GIT_REPOSITORY_INIT_NO_REINIT;
	o.initial_head = "main";
	int r = git_repository_init_ext(&f->repo, into_dir, &o);
	/* No rules for URLs, which we have none of; looking for them leaks memory in 1.5. */
	remote.repository = f->repo;
	remote.flags = GIT_REMOTE_CREATE_SKIP_INSTEADOF;
	if (r == 0)
		r = git_remote_create_with_opts(&f->remote, f->request->url, &remote);
	return r < 0 ? refuse(f, r, "make a repository", err) : 0;
}

static int open_remote(struct fetch *f, struct err *err)
{
	git_remote_connect_options o = GIT_REMOTE_CONNECT_OPTIONS_INIT;

	set_callbacks(f, &o.callbacks);
	/* Within one host a redirect stays allowed, and connects under the same rules. */
	o.follow_redirects = GIT_REMOTE_REDIRECT_NONE;
	int r = git_remote_connect_ext(f->remote, GIT_DIRECTION_FETCH, &o);
	return r < 0 ? refuse(f, r, "reach the repository", err) : 0;
}

/* The depth saves only time: a file://, or a host that can not do it, is asked for all. */
static int fetch_specs(struct fetch *f, const git_strarray *specs, git_fetch_options *o)
{
#if HAS_DEPTH
	if (!f->is_commit)
		o->depth = (int)(f->request->depth < 1000000 ? f->request->depth : 1000000);
	int r = git_remote_fetch(f->remote, specs, o, NULL);
	if (r != GIT_ENOTSUPPORTED || o->depth == 0)
		return r;
	o->depth = 0;
#endif
	return git_remote_fetch(f->remote, specs, o, NULL);
}

static int download(struct fetch *f, struct err *err)
{
	git_fetch_options o = GIT_FETCH_OPTIONS_INIT;
	char one[3 * REF_MAX];
	char heads[] = "+refs/heads/*:refs/belljar/heads/*";
	char tags[] = "+refs/tags/*:refs/belljar/tags/*";
	char *all[] = { heads, tags };
	char *single[] = { one };
	git_strarray specs = { single, 1 };
	int r = f->is_commit ? 0 : resolve_ref(f, one, sizeof(one), err);

	if (r < 0)
		return r;
	set_callbacks(f, &o.callbacks);
	o.follow_redirects = GIT_REMOTE_REDIRECT_NONE;
	o.download_tags = GIT_REMOTE_DOWNLOAD_TAGS_NONE;
	o.update_fetchhead = 0;
	if (f->is_commit)
		specs = (git_strarray){ all, 2 }; /* hosts need not send a bare commit */
	r = fetch_specs(f, &specs, &o);
	if (r < 0)
		return refuse(f, r, "fetch the repository", err);
	(void)git_remote_disconnect(f->remote);
	return 0;
}

static int find_commit(struct fetch *f, git_commit **ret, struct err *err)
{
	git_object *found = NULL;
	git_oid oid;
	int r = f->is_commit ? git_oid_fromstr(&oid, f->request->ref)
			     : git_reference_name_to_id(&oid, f->repo, TARGET);

	if (r == 0)
		r = git_object_lookup(&found, f->repo, &oid, GIT_OBJECT_ANY);
	if (r == GIT_ENOTFOUND && f->is_commit)
		return err_set(err, -ENOENT, "no branch or tag of the repository has this commit");
	if (r == 0)
		r = git_object_peel((git_object **)ret, found, GIT_OBJECT_COMMIT);
	git_object_free(found);
	return r < 0 ? refuse(f, r, "find the commit", err) : 0;
}

static int write_files(
	struct fetch *f, const git_commit *commit, const char *into_dir, struct err *err)
{
	const struct git_files files = {
		.repo = f->repo,
		.patch = f->request->patch,
		.patch_size = f->request->patch_size,
		.max_bytes = f->limits->max_bytes,
		.into_dir = into_dir,
	};
	git_tree *tree = NULL;
	int r = git_commit_tree(&tree, commit);

	if (r < 0)
		return refuse(f, r, "read the commit", err);
	r = git_files_write(&files, tree, err);
	git_tree_free(tree);
	return r;
}

static int remove_repository(const char *into_dir, struct err *err)
{
	AUTO_FD dir = open(into_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "open the directory of the repository");
	int r = fd_remove_tree(dir, ".git");
	return r < 0 ? err_set(err, r, "remove .git: %s", strerror(-r)) : 0;
}

static int take_commit(struct fetch *f, const char *into_dir, char ret_commit[GIT_COMMIT_SIZE + 1],
	struct err *err)
{
	char hex[GIT_COMMIT_SIZE + 1] = "";
	git_commit *commit = NULL;
	int r = find_commit(f, &commit, err);

	if (r < 0)
		return r;
	(void)git_oid_tostr(hex, sizeof(hex), git_commit_id(commit));
	r = check_time(f) < 0 ? refuse(f, GIT_EUSER, "", err)
			      : write_files(f, commit, into_dir, err);
	git_commit_free(commit);
	if (r == 0)
		r = remove_repository(into_dir, err);
	if (r == 0)
		memcpy(ret_commit, hex, sizeof(hex));
	return r;
}

int git_fetch(const struct git_request *request, const struct git_limits *limits,
	const char *into_dir, char ret_commit[GIT_COMMIT_SIZE + 1], struct err *err)
{
	CLEANUP(fetch_fini) struct fetch f = { .request = request, .limits = limits };

	(void)pthread_once(&once, set_up);
	if (once_result < 0)
		return err_set(err, once_result, "libgit2 can not be set up");
	int r = check_request(&f, err);
	if (r < 0)
		return r;
	git_wire_enter(&f.wire);
	r = make_repository(&f, into_dir, err);
	if (r == 0)
		r = open_remote(&f, err);
	if (r == 0)
		r = download(&f, err);
	return r < 0 ? r : take_commit(&f, into_dir, ret_commit, err);
}
