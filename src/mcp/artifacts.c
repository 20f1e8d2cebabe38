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

void artifacts_set_sha256(json_t *o, const struct inventory_entry *e)
{
	char hex[2 * SHA256_SIZE + 1];

	if (!e->has_sha256)
		return;
	str_hex(e->sha256, SHA256_SIZE, hex);
	(void)json_object_set_new(o, "sha256", json_string(hex));
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
	artifacts_set_sha256(o, e);
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
	qsort(files, n, sizeof(*files), inventory_compare_newest);
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
