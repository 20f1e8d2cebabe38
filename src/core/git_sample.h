/* For tests of git: a repository on this machine with two commits, links and a submodule, and how
 * its files are fetched. */
#pragma once
#include <git2.h>
#include <string.h>

#include "base/err.h"
#include "core/git.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* For what ends for another reason; long, since some machines are emulated. */
#define PATIENCE_SEC 300

static char file[] = "file";
static char *const local[] = { file, NULL };
static const struct git_limits wide = {
	.allow = local, .max_bytes = 1 << 20, .timeout_sec = PATIENCE_SEC
};

struct sample {
	struct scratch scratch;
	char url[128];
	git_repository *repo;
	char first[GIT_COMMIT_SIZE + 1]; /* commits */
	char second[GIT_COMMIT_SIZE + 1];
};

static inline void must(int r)
{
	if (r < 0)
		fail_msg("libgit2: %s", git_error_last()->message);
}

static inline void add_file(
	git_repository *repo, git_treebuilder *tree, const char *name, const char *text, int mode)
{
	git_oid oid;

	must(git_blob_create_from_buffer(&oid, repo, text, strlen(text)));
	must(git_treebuilder_insert(NULL, tree, name, &oid, (git_filemode_t)mode));
}

/* Commit the tree to the branch; its id goes to `ret`. */
static inline void commit_tree(
	git_repository *repo, const git_oid *tree_id, const char *branch, char *ret)
{
	git_signature *who = NULL;
	git_tree *tree = NULL;
	git_oid oid;

	must(git_signature_new(&who, "a", "a@example.org", 1700000000, 0));
	must(git_tree_lookup(&tree, repo, tree_id));
	must(git_commit_create(&oid, repo, branch, who, who, NULL, "words", tree, 0, NULL));
	git_tree_free(tree);
	git_signature_free(who);
	if (ret)
		(void)git_oid_tostr(ret, GIT_COMMIT_SIZE + 1, &oid);
}

/* The same files once more, with a history. */
static inline void commit_child(
	git_repository *repo, const char *parent, const char *branch, char *ret)
{
	git_signature *who = NULL;
	git_commit *before = NULL;
	git_tree *tree = NULL;
	git_oid oid;

	must(git_oid_fromstr(&oid, parent));
	must(git_commit_lookup(&before, repo, &oid));
	must(git_commit_tree(&tree, before));
	must(git_signature_new(&who, "a", "a@example.org", 1700000001, 0));
	must(git_commit_create_v(&oid, repo, branch, who, who, NULL, "more", tree, 1, before));
	git_signature_free(who);
	git_tree_free(tree);
	git_commit_free(before);
	(void)git_oid_tostr(ret, GIT_COMMIT_SIZE + 1, &oid);
}

static inline void make_first(struct sample *s)
{
	git_treebuilder *sub = NULL, *top = NULL;
	git_oid oid;

	must(git_treebuilder_new(&sub, s->repo, NULL));
	add_file(s->repo, sub, "main.c", "int main;\n", 0100644);
	add_file(s->repo, sub, "up", "../run.sh", 0120000);
	add_file(s->repo, sub, "out", "../../etc/passwd", 0120000);
	must(git_treebuilder_write(&oid, sub));
	git_treebuilder_free(sub);
	must(git_treebuilder_new(&top, s->repo, NULL));
	must(git_treebuilder_insert(NULL, top, "src", &oid, GIT_FILEMODE_TREE));
	add_file(s->repo, top, "run.sh", "#!/bin/sh\n", 0100755);
	add_file(s->repo, top, "abs", "/etc/passwd", 0120000);
	add_file(s->repo, top, "text", "one\ntwo\nthree\n", 0100644);
	must(git_oid_fromstr(&oid, "1111111111111111111111111111111111111111"));
	must(git_treebuilder_insert(NULL, top, "module", &oid, GIT_FILEMODE_COMMIT));
	must(git_treebuilder_write(&oid, top));
	git_treebuilder_free(top);
	commit_tree(s->repo, &oid, "refs/heads/main", s->first);
}

static inline void make_second(struct sample *s)
{
	git_treebuilder *top = NULL;
	git_object *commit = NULL;
	git_signature *who = NULL;
	git_oid oid;

	must(git_treebuilder_new(&top, s->repo, NULL));
	add_file(s->repo, top, "other", "other\n", 0100644);
	must(git_treebuilder_write(&oid, top));
	git_treebuilder_free(top);
	commit_tree(s->repo, &oid, "refs/heads/topic/a", s->second);
	must(git_revparse_single(&commit, s->repo, s->second));
	must(git_signature_new(&who, "a", "a@example.org", 1700000000, 0));
	must(git_tag_create(&oid, s->repo, "v1", commit, who, "words", 0));
	git_signature_free(who);
	git_object_free(commit);
}

static inline void sample_make(struct sample *s)
{
	git_repository_init_options o = GIT_REPOSITORY_INIT_OPTIONS_INIT;

	(void)git_libgit2_init();
	scratch_make(&s->scratch);
	o.flags = GIT_REPOSITORY_INIT_BARE | GIT_REPOSITORY_INIT_MKDIR;
	o.initial_head = "main";
	(void)snprintf(s->url, sizeof(s->url), "file://%s", s->scratch.path);
	must(git_repository_init_ext(&s->repo, s->scratch.path, &o));
	make_first(s);
	make_second(s);
}

static inline void sample_remove(struct sample *s)
{
	git_repository_free(s->repo);
	scratch_remove(&s->scratch);
	(void)git_libgit2_shutdown();
}

#define SAMPLE(name)                                                                               \
	CLEANUP(sample_remove) struct sample name;                                                 \
	sample_make(&name)

static inline int fetch(const struct sample *s, const char *ref, const char *patch,
	const struct scratch *into, char *commit, struct err *err)
{
	struct git_request q = { .url = s->url, .ref = ref, .depth = 1, .patch = patch };

	q.patch_size = patch ? strlen(patch) : 0;
	return git_fetch(&q, &wide, into->path, commit, err);
}
