/* The workspaces that clients made: who they belong to, and how large they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

void workspaces_drop(struct keeper *k, struct workspace *w)
{
	struct err err = { 0 };

	if (workspace_remove(&k->workspace_home, w->id, &err) < 0)
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

void workspaces_drop_all(struct keeper *k)
{
	while (k->workspaces)
		workspaces_drop(k, k->workspaces);
}

static int resize(struct keeper *k, struct workspace *w, uint64_t bytes, struct err *err)
{
	if (bytes == w->bytes)
		return 0;
	int r = workspace_resize(&k->workspace_home, w->id, bytes, err);
	if (r == 0)
		w->bytes = bytes;
	/* Less than what is in there can not be had. It is tried again with the next run. */
	return r == -EBUSY ? 0 : r;
}

int workspaces_open(struct keeper *k, struct workspace *w, const struct spec *spec, int *ret_fd,
	struct err *err)
{
	uint64_t bytes = spec->limits.workspace_bytes;
	/* Files that take the place of others need room beside them for a moment. */
	int r = resize(k, w, spec->deed == DEED_FILES ? 2 * bytes : bytes, err);

	return r < 0 ? r : workspace_clone(&k->workspace_home, w->id, ret_fd, err);
}

void workspaces_settle(struct keeper *k, struct workspace *w, uint64_t bytes)
{
	struct err err = { 0 };

	if (w && resize(k, w, bytes, &err) < 0)
		log_warn("workspace %s: %s, ignoring", w->id, err.text);
}
