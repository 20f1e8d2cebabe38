#include "mcp/artifacts.h"

#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/call.h"
#include "mcp/tool.h"

bool artifacts_is_shown(const struct inventory_entry *e)
{
	return e->kind == INVENTORY_FILE && artifact_path_is_safe(e->path) &&
	       !str_after(e->path, ARTIFACTS_OURS) && !str_after(e->path, INVENTORY_CACHES);
}

static int compare(const void *a, const void *b)
{
	const struct inventory_entry *x = *(const struct inventory_entry *const *)a;
	const struct inventory_entry *y = *(const struct inventory_entry *const *)b;

	if (x->is_changed != y->is_changed)
		return x->is_changed ? -1 : 1;
	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns > y->mtime_ns ? -1 : 1;
	return strcmp(x->path, y->path);
}

static json_t *artifact_of(
	const struct call *c, const struct session *session, const struct inventory_entry *e)
{
	json_t *o = tool_artifact(c, session, e->path, e->size);
	char at[DATE_SIZE + 1];

	/* A guest may have set any time. */
	if (e->mtime_ns < UINT64_C(4102444800) * 1000000000) {
		date_format(e->mtime_ns, at);
		(void)json_object_set_new(o, "modified_at", json_string(at));
	}
	return o;
}

void artifacts_set(const struct call *c, const struct session *session,
	const struct inventory *listing, json_t *o)
{
	size_t max = (size_t)call_service(c)->settings->mcp_max_artifacts;
	size_t n_entries = listing ? listing->n : 0;
	AUTO_FREE const struct inventory_entry **files = xcalloc(n_entries + 1, sizeof(*files));
	json_t *list = json_array();
	size_t n = 0;

	for (size_t i = 0; i < n_entries; i++) {
		if (artifacts_is_shown(&listing->at[i]))
			files[n++] = &listing->at[i];
	}
	qsort(files, n, sizeof(*files), compare);
	for (size_t i = 0; i < n && i < max; i++)
		(void)json_array_append_new(list, artifact_of(c, session, files[i]));
	(void)json_object_set_new(o, "artifacts", list);
	size_t n_omitted = (n > max ? n - max : 0) + (listing ? listing->n_more : 0);
	if (n_omitted > 0)
		(void)json_object_set_new(
			o, "artifacts_omitted", json_integer((json_int_t)n_omitted));
	if (listing && listing->is_partial)
		(void)json_object_set_new(o, "artifacts_incomplete", json_true());
}

void artifacts_add_links(json_t *content, const struct session *session, const json_t *list)
{
	size_t i;
	const json_t *item;

	json_array_foreach(list, i, item) tool_add_link(content, session, item);
}
