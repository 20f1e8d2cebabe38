#include "core/git_files.h"

#include <errno.h>
#include <git2.h>
#if __has_include(<git2/sys/errors.h>)
#include <git2/sys/errors.h> /* since 1.8; before it was in the above */
#endif
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "core/git_patch.h"
#include "core/manifest.h"
#include "ipc/pack.h"

static int refuse(int code, const char *what, struct err *err)
{
	const git_error *last = git_error_last();

	return err_set(
		err, code, "%s: %.160s", what, last && last->message ? last->message : "failed");
}

/* --- is it sane? --- */

struct walk {
	size_t n;
	struct err failure;
};

/* A few small trees that name each other can mean more files than there are atoms: look
 * before anything is made of them. */
static int on_entry(const char *root, const git_tree_entry *entry, void *ctx)
{
	struct walk *w = ctx;
	size_t size = strlen(root) + strlen(git_tree_entry_name(entry));

	if (++w->n > PACK_ENTRIES_MAX)
		return err_set(
			&w->failure, -E2BIG, "the commit has more than %u files", PACK_ENTRIES_MAX);
	if (size > PACK_NAME_MAX || manifest_depth(root) >= PACK_DEPTH_MAX)
		return err_set(&w->failure, -E2BIG, "the commit has a file deeper than %u",
			PACK_DEPTH_MAX);
	return 0;
}

static int check_tree(const git_tree *tree, struct err *err)
{
	struct walk w = { 0 };
	int r = git_tree_walk(tree, GIT_TREEWALK_PRE, on_entry, &w);

	if (w.failure.code < 0)
		return err_set(err, w.failure.code, "%s", w.failure.text);
	return r < 0 ? refuse(-EIO, "read the commit", err) : 0;
}

/* --- the patch --- */

struct place {
	const git_tree *tree; /* before it */
	char file[128];
	unsigned hunk;
};

static bool has_file(const git_tree *tree, const char *path)
{
	git_tree_entry *found = NULL;
	bool has = git_tree_entry_bypath(&found, tree, path) == 0;

	git_tree_entry_free(found);
	return has;
}

static int on_delta(const git_diff_delta *delta, void *ctx)
{
	struct place *p = ctx;
	const char *path = delta->new_file.path ? delta->new_file.path : delta->old_file.path;

	(void)snprintf(p->file, sizeof(p->file), "%s", path ? path : "?");
	p->hunk = 0;
	/* libgit2 would replace it without a word. */
	if (delta->status != GIT_DELTA_ADDED || !path || !has_file(p->tree, path))
		return 0;
	(void)git_error_set_str(GIT_ERROR_PATCH, "it is there already");
	return -1;
}

static int on_hunk(const git_diff_hunk *hunk, void *ctx)
{
	(void)hunk;
	((struct place *)ctx)->hunk++;
	return 0;
}

static int refuse_patch(const struct place *p, struct err *err)
{
	char what[256];

	if (!p->file[0])
		return refuse(-EINVAL, "the patch does not apply", err);
	(void)snprintf(what, sizeof(what), "the patch does not apply, file '%s', hunk %u", p->file,
		p->hunk);
	return refuse(-EINVAL, what, err);
}

static int read_patch(const struct git_files *f, git_diff **ret, struct err *err)
{
	AUTO_FREE char *patch = NULL;
	size_t size = 0;
	int r = git_patch_complete(f->patch, f->patch_size, &patch, &size, err);

	if (r < 0)
		return err_wrap(err, r, "the patch can not be read");
	return git_diff_from_buffer(ret, patch, size) < 0
		       ? refuse(-EINVAL, "the patch can not be read", err)
		       : 0;
}

/* What the patch says nothing about stays as it was; libgit2 makes a plain file of it. */
static int keep_mode(git_tree *tree, git_index *index, const git_diff_delta *d)
{
	git_tree_entry *before = NULL;
	const git_index_entry *found = git_index_get_bypath(index, d->new_file.path, 0);

	if (d->new_file.mode != 0 || !found ||
		git_tree_entry_bypath(&before, tree, d->old_file.path) < 0)
		return 0;
	git_index_entry after = *found;
	after.mode = git_tree_entry_filemode(before);
	git_tree_entry_free(before);
	return git_index_add(index, &after);
}

static int keep_modes(git_tree *tree, git_index *index, const git_diff *diff, struct err *err)
{
	for (size_t i = 0; i < git_diff_num_deltas(diff); i++)
		if (keep_mode(tree, index, git_diff_get_delta(diff, i)) < 0)
			return refuse(-EINVAL, "the patch does not apply", err);
	return 0;
}

static int apply_patch(const struct git_files *f, git_tree *tree, git_index **ret, struct err *err)
{
	git_apply_options o = GIT_APPLY_OPTIONS_INIT;
	struct place place = { .tree = tree };
	git_diff *diff = NULL;
	int r = read_patch(f, &diff, err);

	if (r < 0)
		return r;
	o.delta_cb = on_delta;
	o.hunk_cb = on_hunk;
	o.payload = &place;
	r = git_apply_to_tree(ret, f->repo, tree, diff, &o);
	r = r < 0 ? refuse_patch(&place, err) : keep_modes(tree, *ret, diff, err);
	git_diff_free(diff);
	return r;
}

static int make_index(const struct git_files *f, git_tree *tree, git_index **ret, struct err *err)
{
	if (f->patch)
		return apply_patch(f, tree, ret, err);
	if (git_index_new(ret) < 0 || git_index_read_tree(*ret, tree) < 0)
		return refuse(-EIO, "read the commit", err);
	return 0;
}

/* --- what is left out --- */

struct pruning {
	const struct git_files *files;
	const git_tree *tree; /* before the patch */
	git_odb *odb;
};

bool git_files_link_stays(const char *path, const char *target)
{
	size_t depth = manifest_depth(path);

	if (*target == '/' || !*target)
		return false;
	while (strncmp(target, "../", 3) == 0 || streq(target, "..")) {
		if (depth-- == 0)
			return false;
		target += target[2] ? 3 : 2;
	}
	/* Behind a name, ".." may mean anything: the name may be a link. */
	for (const char *p = target; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && memcmp(p, "..", 2) == 0)
			return false;
		p += n + (p[n] == '/');
	}
	return true;
}

static bool link_stays(git_repository *repo, const git_index_entry *e)
{
	char target[PACK_NAME_MAX + 1];
	git_blob *blob = NULL;
	bool stays = false;

	if (git_blob_lookup(&blob, repo, &e->id) < 0)
		return false;
	git_object_size_t size = git_blob_rawsize(blob);
	if (size <= PACK_NAME_MAX) {
		memcpy(target, git_blob_rawcontent(blob), size);
		target[size] = '\0';
		stays = strlen(target) == size && git_files_link_stays(e->path, target);
	}
	git_blob_free(blob);
	return stays;
}

/* 0 for what the repository has itself; who sends it in a patch is told. */
static int leave_out(
	const struct pruning *p, const git_index_entry *e, const char *what, struct err *err)
{
	git_tree_entry *before = NULL;
	bool is_old = !p->files->patch;

	if (!is_old && git_tree_entry_bypath(&before, p->tree, e->path) == 0)
		is_old = git_oid_equal(git_tree_entry_id(before), &e->id) &&
			 (uint32_t)git_tree_entry_filemode(before) == e->mode;
	git_tree_entry_free(before);
	return is_old ? 0 : err_set(err, -EINVAL, "the patch makes '%.100s' a %s", e->path, what);
}

/* 1 to keep it, 0 to leave it out. */
static int judge(const struct pruning *p, const git_index_entry *e, uint64_t *left, struct err *err)
{
	const struct git_files *f = p->files;
	git_object_t type = GIT_OBJECT_INVALID;
	size_t size = 0;

	if (e->mode == GIT_FILEMODE_COMMIT)
		return leave_out(p, e, "submodule", err);
	if (git_odb_read_header(&size, &type, p->odb, &e->id) < 0 || type != GIT_OBJECT_BLOB)
		return refuse(-EIO, "read a file of the commit", err);
	if (size > *left)
		return err_set(err, -EFBIG, "the files of the commit are larger than %llu bytes",
			(unsigned long long)f->max_bytes);
	if (e->mode == GIT_FILEMODE_LINK && !link_stays(f->repo, e))
		return leave_out(p, e, "link that leads out of the workspace", err);
	*left -= size;
	return 1;
}

static int prune(const struct git_files *f, const git_tree *tree, git_index *index, struct err *err)
{
	struct pruning p = { .files = f, .tree = tree };
	uint64_t left = f->max_bytes;
	int r = 0;

	if (git_repository_odb(&p.odb, f->repo) < 0)
		return refuse(-EIO, "read the repository", err);
	/* From the end, so that removing moves nothing that is still to come. */
	for (size_t i = git_index_entrycount(index); i-- > 0 && r >= 0;) {
		const git_index_entry *e = git_index_get_byindex(index, i);

		r = judge(&p, e, &left, err);
		if (r == 0 && git_index_remove(index, e->path, git_index_entry_stage(e)) < 0)
			r = refuse(-EIO, "leave a file out", err);
	}
	git_odb_free(p.odb);
	return r < 0 ? r : 0;
}

/* --- writing --- */

static int check_out(const struct git_files *f, git_index *index, struct err *err)
{
	git_checkout_options o = GIT_CHECKOUT_OPTIONS_INIT;

	o.checkout_strategy = GIT_CHECKOUT_FORCE | GIT_CHECKOUT_DONT_UPDATE_INDEX |
			      GIT_CHECKOUT_DONT_WRITE_INDEX | GIT_CHECKOUT_NO_REFRESH;
	o.disable_filters = 1;
	o.target_directory = f->into_dir;
	return git_checkout_index(f->repo, index, &o) < 0
		       ? refuse(-EINVAL, "write the files of the commit", err)
		       : 0;
}

int git_files_write(const struct git_files *files, git_tree *tree, struct err *err)
{
	git_index *index = NULL;
	int r = check_tree(tree, err);

	if (r == 0)
		r = make_index(files, tree, &index, err);
	if (r == 0)
		r = prune(files, tree, index, err);
	if (r == 0)
		r = check_out(files, index, err);
	git_index_free(index);
	return r;
}
