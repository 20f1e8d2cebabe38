/* GET /sessions/{id}/files: what is in a session's workspace, all of it or one directory. A box
 * says so (core/session.h), within the limits of ipc/inventory.h; an answer that is not all of it
 * says that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/links.h"
#include "api/page.h"
#include "api/reply.h"
#include "api/sessions.h"
#include "base/cleanup.h"
#include "base/date.h"
#include "base/json.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/session.h"

/* Files of ours in a workspace begin so; no list shows them. */
#define OURS ".belljar-"

/* A guest may have set any time; what is later than the year 2100 is not shown. */
#define MTIME_MAX_NS (UINT64_C(4102444800) * 1000000000)

struct listing_answer {
	struct exchange *x;
	char session_id[SESSION_NAME_MAX + 1];
	struct page page;
	bool is_recursive;
	size_t n_directory;
	char directory[]; /* without slashes around it; "": the workspace */
};

/* --- entries --- */

static const char *type_of(enum inventory_kind kind)
{
	static const struct {
		enum inventory_kind kind;
		const char *name;
	} types[] = {
		{ INVENTORY_FILE, "file" },
		{ INVENTORY_DIR, "directory" },
		{ INVENTORY_LINK, "link" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i].kind == kind)
			return types[i].name;
	}
	return "other";
}

static json_t *entry_json(const struct listing_answer *a, const struct inventory_entry *e)
{
	json_t *o = json_pack("{s:s,s:s,s:I}", "path", e->path, "type", type_of(e->kind), "size",
		(json_int_t)e->size);
	bool is_served = e->kind == INVENTORY_FILE && artifact_path_is_safe(e->path);
	AUTO_FREE char *url = is_served ? links_file(a->x, a->session_id, e->path) : NULL;
	char at[DATE_SIZE + 1] = "";

	if (e->mtime_ns < MTIME_MAX_NS)
		date_format(e->mtime_ns, at);
	(void)json_object_set_new(o, "modified_at", json_text_or_null(at[0] ? at : NULL));
	(void)json_object_set_new(o, "download_url", json_text_or_null(url));
	return o;
}

/* The part of an entry's path below the directory, or NULL when the entry is elsewhere. */
static const char *path_within(const struct listing_answer *a, const char *path)
{
	if (a->n_directory == 0)
		return path;
	if (strncmp(path, a->directory, a->n_directory) != 0 || path[a->n_directory] != '/')
		return NULL;
	return path + a->n_directory + 1;
}

static bool is_shown(const struct listing_answer *a, const struct inventory_entry *e)
{
	const char *rest = path_within(a, e->path);

	return rest && !str_after(e->path, OURS) && (a->is_recursive || !strchr(rest, '/'));
}

/* Is there such a directory? It need not have an entry of its own where the list was cut. */
static bool has_directory(const struct listing_answer *a, const struct inventory *listing)
{
	bool is_there = a->n_directory == 0;

	for (size_t i = 0; i < listing->n && !is_there; i++) {
		const struct inventory_entry *e = &listing->at[i];

		is_there = path_within(a, e->path) ||
			   (e->kind == INVENTORY_DIR && streq(e->path, a->directory));
	}
	return is_there;
}

/* --- the answer --- */

static json_t *list_json(const struct listing_answer *a, const struct inventory *listing)
{
	json_t *items = json_array();
	uint64_t n = 0;

	for (size_t i = 0; i < listing->n; i++) {
		const struct inventory_entry *e = &listing->at[i];

		if (!is_shown(a, e))
			continue;
		if (n >= a->page.offset && json_array_size(items) < a->page.limit)
			(void)json_array_append_new(items, entry_json(a, e));
		n++;
	}
	json_t *o = page_json(&a->page, n, items);
	(void)json_object_set_new(o, "session_id", json_string(a->session_id));
	(void)json_object_set_new(o, "path", json_string(a->directory));
	(void)json_object_set_new(o, "truncated", json_boolean(listing->is_cut));
	(void)json_object_set_new(o, "files_omitted",
		json_integer((json_int_t)(listing->n_more + listing->n_unnamed)));
	return o;
}

static void on_listed(void *ctx, struct inventory *listing, struct problem *problem)
{
	AUTO_FREE struct listing_answer *a = ctx;

	if (problem->status)
		reply_problem(a->x, problem);
	else if (!has_directory(a, listing))
		reply_refusal(a->x, "file_not_found",
			listing->is_cut ? "no such directory is among those that were listed"
					: "there is no such directory");
	else
		reply_json(a->x, 200, list_json(a, listing));
}

/* --- what is asked for --- */

/* A directory as people write it: "a/b", "a/b/", "./a", "/workspace/a". NULL when it can be none.
 */
static const char *clean_directory(const char *text, size_t *ret_size)
{
	const char *rest = str_after(text, "/workspace");

	if (rest && (*rest == '/' || !*rest))
		text = rest + strspn(rest, "/");
	while (str_after(text, "./"))
		text += 2;
	size_t size = strlen(text);
	while (size > 0 && text[size - 1] == '/')
		size--;
	if (size == 1 && *text == '.')
		size = 0;
	AUTO_FREE char *clean = xcalloc(1, size + 1);
	memcpy(clean, text, size);
	*ret_size = size;
	return size == 0 || artifact_path_is_safe(clean) ? text : NULL;
}

static int read_recursive(struct exchange *x, bool *ret)
{
	const char *text = exchange_query(x, "recursive");

	*ret = !text || streq(text, "1") || streq(text, "true");
	if (*ret || streq(text, "0") || streq(text, "false"))
		return 0;
	reply_field(x, PROBLEM_IN_QUERY, "recursive", "must be 0, 1, false or true");
	return -EINVAL;
}

static void handle_list(struct exchange *x)
{
	struct session *session = sessions_find(x);
	const char *text = exchange_query(x, "path");
	struct page page;
	bool is_recursive;
	size_t size = 0;

	if (!session || page_read(x, &page) < 0 || read_recursive(x, &is_recursive) < 0)
		return;
	const char *directory = clean_directory(text ? text : "", &size);
	if (!directory) {
		reply_refusal(x, "invalid_path", "a directory of a session can not have this path");
		return;
	}
	struct listing_answer *a = xcalloc(1, sizeof(*a) + size + 1);
	a->x = x;
	a->page = page;
	a->is_recursive = is_recursive;
	a->n_directory = size;
	memcpy(a->directory, directory, size);
	(void)snprintf(a->session_id, sizeof(a->session_id), "%s", session_shown_id(session));
	session_list_files(session, false, on_listed, a);
}

const struct route routes_listing[] = {
	{ "GET", API_BASE "/sessions/{id}/files", ACCESS_USER, BODY_NONE, 0, handle_list,
		"path recursive limit offset" },
	{ 0 },
};
