/* The workspaces that clients made: who they belong to, and how large they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "keeper/keeper_private.h"

struct workspace *workspaces_find(struct keeper *k, const char *id, uid_t owner)
{
	for (struct workspace *w = k->workspaces; w; w = w->next) {
		if (streq(w->id, id))
			return w->owner == owner || owner == 0 ? w : NULL;
	}
	return NULL;
}

int workspaces_add(struct keeper *k, const char *id, uid_t owner, uint64_t bytes, struct err *err)
{
	bool is_mapped = workspace_home_is_mapped(&k->workspace_home);
	uid_t uid = is_mapped ? BOX_ANY_UID : boxes_choose_uid(k);

	if (k->n_workspaces >= WORKSPACES_MAX)
		return err_set(err, -EAGAIN, "the keeper holds %u workspaces and takes no more",
			WORKSPACES_MAX);
	if (workspaces_find(k, id, 0))
		return err_set(err, -EEXIST, "there is a workspace %s already", id);
	int r = workspace_make(&k->workspace_home, id, is_mapped ? BOX_UID : uid, bytes, err);
	if (r < 0)
		return r;
	struct workspace *w = xnew(struct workspace);
	memcpy(w->id, id, sizeof(w->id));
	w->owner = owner;
	w->uid = uid;
	w->bytes = bytes;
	w->next = k->workspaces;
	k->workspaces = w;
	k->n_workspaces++;
	return 0;
}

/* The runs in it go on with it until they end; it has no name any more. */
static void forget(struct keeper *k, const struct workspace *w)
{
	for (struct ward *r = k->runs; r; r = r->next) {
		if (r->workspace == w)
			r->workspace = NULL;
	}
}

static void drop(struct keeper *k, struct workspace *w, int *ret_fd)
{
	struct err err = { 0 };

	if (workspace_remove(&k->workspace_home, w->id, ret_fd, &err) < 0)
		log_warn("workspace %s: %s, ignoring", w->id, err.text);
	forget(k, w);
	for (struct workspace **at = &k->workspaces; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	k->n_workspaces--;
	free(w);
}

/* To free what is in it may take long. */
void workspaces_drop(struct keeper *k, struct workspace *w)
{
	int fd = -1;

	drop(k, w, &fd);
	disposer_close(&k->disposer, &fd);
}

/* When the keeper ends, nobody waits for it. */
void workspaces_drop_all(struct keeper *k)
{
	disposer_fini(&k->disposer);
	while (k->workspaces) {
		AUTO_FD fd = -1;

		drop(k, k->workspaces, &fd);
	}
}

/* Not while files come in: these would find no room. */
static int shrink(struct keeper *k, struct workspace *w, uint64_t bytes, struct err *err)
{
	if (bytes == w->bytes || w->filler)
		return 0;
	return workspace_shrink(&k->workspace_home, w->id, bytes, &w->bytes, err);
}

/* Files that take the place of others need room beside them for a moment. */
static int widen(struct keeper *k, struct ward *r, uint64_t bytes, struct err *err)
{
	struct workspace *w = r->workspace;

	w->filler = r;
	int result = workspace_resize(&k->workspace_home, w->id, 2 * bytes, err);
	if (result == 0)
		w->bytes = 2 * bytes;
	return result == -EBUSY ? 0 : result;
}

int workspaces_open(
	struct keeper *k, struct ward *r, const struct spec *spec, int *ret_fd, struct err *err)
{
	uint64_t bytes = spec->limits.workspace_bytes;
	int result = spec->deed == DEED_FILES ? widen(k, r, bytes, err)
					      : shrink(k, r->workspace, bytes, err);

	return result < 0 ? result
			  : workspace_clone(&k->workspace_home, r->workspace->id, ret_fd, err);
}

void workspaces_settle(struct keeper *k, struct ward *r)
{
	struct workspace *w = TAKE(r->workspace); /* others may have given it another size later */
	struct err err = { 0 };

	if (!w)
		return;
	if (w->filler == r)
		w->filler = NULL;
	if (shrink(k, w, r->limits.workspace_bytes, &err) < 0)
		log_warn("workspace %s: %s, ignoring", w->id, err.text);
}
