/* Tools for a session's files: upload_file, read_artifact, list_files and list_artifacts. Files go
 * in and come out through boxes, as everywhere. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base64.h"
#include "base/date.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session.h"
#include "core/utf8.h"
#include "mcp/artifacts.h"
#include "mcp/call.h"
#include "mcp/contents.h"
#include "mcp/mcp_peer.h"
#include "mcp/tool.h"
#include "mcp/turns.h"

/* What a call is about, while boxes work for it; the session is looked for again then. */
struct job_file {
	struct call *call;
	char session_id[UUID_SIZE + 1];
	char *path; /* relative; may be NULL */
	int fd;     /* what is to be written, or -1 */
	uint64_t size;
	char sha256[DIGEST_HEX_SIZE + 1]; /* of that */
	bool overwrites;
};

static struct job_file *job_new(struct call *c, const char *path)
{
	struct job_file *j = xnew(struct job_file);

	*j = (struct job_file){ .call = c, .fd = -1 };
	j->path = path ? xstrdup(path) : NULL;
	c->work = j;
	return j;
}

static void job_free(struct job_file *j)
{
	close_fdp(&j->fd);
	free(j->path);
	free(j);
}

static void job_refuse(struct job_file *j, const struct problem *problem)
{
	struct call *c = j->call;

	job_free(j);
	call_refuse_tool(c, problem);
}

/* The session of the job; NULL, and the call is answered, when it ended meanwhile. */
static struct session *job_session(struct job_file *j)
{
	struct session *session =
		session_find(call_service(j->call), j->session_id, &j->call->peer->who);
	struct problem problem = { 0 };

	if (session && session_is_open(session))
		return session;
	(void)problem_set(&problem, "session_not_found", "the session ended");
	job_refuse(j, &problem);
	problem_fini(&problem);
	return NULL;
}

static void job_take_session(struct job_file *j, const struct session *session)
{
	(void)snprintf(j->session_id, sizeof(j->session_id), "%s", session->row.id);
}

/* The path that arguments name, or NULL when it was answered that it can not be one. */
static const char *path_in(struct call *c, const json_t *arguments, const char *name)
{
	const char *path = json_string_value(json_object_get(arguments, name));
	const char *relative = tool_relative_path(path);

	if (relative && strncmp(relative, ARTIFACTS_OURS, strlen(ARTIFACTS_OURS)) != 0)
		return relative;
	call_fail_tool(c,
		"invalid_path: %s: %s can not be a file in " TOOL_DATA
		"; give a path such as " TOOL_DATA "/data.csv, without .. in it",
		name, quote(path).text);
	return NULL;
}

/* --- upload_file --- */

static void fail_left_out(struct call *c, const struct upload_result *result)
{
	if (result->n_binaries > 0)
		call_fail_tool(c, "binary_refused: this server takes no binary files; upload text, "
				  "and have code make the file of it");
	else if (result->n_ignored > 0)
		call_fail_tool(c, "invalid_path: this server leaves out files with such a name; "
				  "choose another one");
	else
		call_fail_tool(c, "invalid_path: a file with this name is not taken here");
}

static void on_put(void *ctx, const struct upload_result *result, struct problem *problem)
{
	struct job_file *j = ctx;
	struct call *c = j->call;
	char path[4200];

	if (problem->status) {
		job_refuse(j, problem);
		return;
	}
	if (result->n_files != 1) {
		job_free(j);
		fail_left_out(c, result);
		return;
	}
	const struct session *session = job_session(j);
	if (!session)
		return;
	AUTO_FREE char *url = tool_download_url(c, session, j->path);
	AUTO_FREE char *uri = tool_uri(session, j->path);
	(void)snprintf(path, sizeof(path), TOOL_DATA "/%s", j->path);
	mcp_peer_tell_updated(c->peer->host, c->peer->who.user_id, uri);
	mcp_peer_tell_listed(c->peer->host, c->peer->who.user_id);
	json_t *o = json_pack("{s:s,s:I,s:s,s:s}", "path", path, "size_bytes", (json_int_t)j->size,
		"sha256", j->sha256, "download_url", url);
	tool_tell_of_expiry(c, o);
	job_free(j);
	call_finish_tool(c, NULL, o, false);
}

static void put(struct job_file *j, struct session *session)
{
	struct upload_source *source = xnew(struct upload_source);

	*source = (struct upload_source){
		.fd = j->fd, .size = j->size, .name = xstrdup(j->path), .kind = UPLOAD_PLAIN
	};
	struct session_upload upload = {
		.sources = source, .n_sources = 1, .kind = "plain", .fd = take_fd(&j->fd)
	};
	session_put_files(session, &upload, on_put, j);
}

static bool is_listed(const struct inventory *listing, const char *path)
{
	for (size_t i = 0; i < listing->n; i++) {
		if (streq(listing->at[i].path, path))
			return true;
	}
	return false;
}

static void on_looked(void *ctx, struct inventory *listing, struct problem *problem)
{
	struct job_file *j = ctx;
	struct call *c = j->call;

	if (problem->status) {
		job_refuse(j, problem);
		return;
	}
	if (is_listed(listing, j->path) || listing->is_cut) {
		bool is_there = is_listed(listing, j->path);

		job_free(j);
		call_fail_tool(c, is_there ? "file_exists: there is such a file already; choose "
					     "another name, or say overwrite: true"
					   : "too_many_files: whether there is such a file can not "
					     "be told; say overwrite: true");
		return;
	}
	struct session *session = job_session(j);
	if (session)
		put(j, session);
}

static void on_upload_session(struct call *c, struct session *session)
{
	struct job_file *j = c->work;

	if (!session) {
		job_free(j);
		return;
	}
	job_take_session(j, session);
	if (j->overwrites)
		put(j, session);
	else
		session_list_files(session, false, on_looked, j);
}

/* As models and tools write it: with blanks and newlines, or without what fills it up. The caller
 * frees it. */
static char *tidy_base64(const json_t *content, size_t *ret_size)
{
	char *text = xcalloc(1, json_string_length(content) + 4);
	size_t n = 0;

	for (const char *at = json_string_value(content); *at; at++) {
		if (!strchr(" \t\r\n", *at))
			text[n++] = *at;
	}
	while (n % 4 > 1)
		text[n++] = '=';
	*ret_size = n;
	return text;
}

/* 0 with the content in a file of memory, or a negative errno. */
static int decode(struct job_file *j, const json_t *content)
{
	size_t size = 0;
	AUTO_FREE char *text = tidy_base64(content, &size);
	AUTO_FREE uint8_t *data = xcalloc(1, BASE64_BYTES_SIZE(size) + 1);
	size_t n = 0;
	int r = base64_decode(text, size, data, &n);

	if (r < 0)
		return r;
	j->fd = memfd_create("upload", MFD_CLOEXEC);
	if (j->fd < 0)
		return -errno;
	j->size = n;
	digest_of(data, n, j->sha256);
	return fd_write_full(j->fd, data, n);
}

static void upload_file(struct call *c, const json_t *arguments)
{
	const char *path = path_in(c, arguments, "filename");

	if (!path)
		return;
	struct job_file *j = job_new(c, path);
	int r = decode(j, json_object_get(arguments, "content_base64"));
	if (r < 0) {
		job_free(j);
		call_fail_tool(c, r == -EINVAL ? "content_base64: this is no base64, as RFC 4648 "
						 "has it"
					       : "internal_error: the content could not be kept");
		return;
	}
	j->overwrites = json_is_true(json_object_get(arguments, "overwrite"));
	tool_obtain_session(c, arguments, on_upload_session);
}

/* --- read_artifact --- */

static void fail_too_large(struct job_file *j, const struct session *session, uint64_t size)
{
	struct call *c = j->call;
	uint64_t limit = call_service(c)->settings->mcp_max_read_bytes;
	AUTO_FREE char *url = tool_download_url(c, session, j->path);
	AUTO_FREE char *text = NULL;
	char bytes[40] = "more";

	if (size > 0)
		(void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)size);
	if (asprintf(&text,
		    "payload_too_large: the file has %s bytes, and read_artifact returns at most "
		    "%llu; fetch it from %s, or have code read a part of it",
		    bytes, (unsigned long long)limit, url) < 0)
		abort();
	json_t *o = json_pack("{s:s,s:I,s:s}", "error", "payload_too_large", "limit_bytes",
		(json_int_t)limit, "download_url", url);
	job_free(j);
	call_finish_tool(c, json_pack("[o]", call_text(text)), o, true);
}

static json_t *about_file(const struct job_file *j, const struct contents *file)
{
	char path[4200];

	(void)snprintf(path, sizeof(path), TOOL_DATA "/%s", j->path);
	return json_pack("{s:s,s:s,s:I,s:s}", "path", path, "mime_type", file->mime, "size_bytes",
		(json_int_t)file->size, "sha256", file->sha256);
}

/* The image, and what it is as a text: many clients show their model only structuredContent when
 * there is one, and would leave the image out. */
static void finish_image(struct job_file *j, const struct contents *file)
{
	struct call *c = j->call;
	AUTO_JSON *about = about_file(j, file);
	AUTO_FREE char *text = json_dumps(about, JSON_COMPACT);
	json_t *content = json_pack("[{s:s,s:o,s:s},o]", "type", "image", "data",
		contents_base64(file), "mimeType", file->mime, call_text(text));

	job_free(j);
	call_finish_tool(c, content, NULL, false);
}

static void finish_bytes(struct job_file *j, const struct contents *file)
{
	struct call *c = j->call;
	json_t *o = about_file(j, file);

	(void)json_object_set_new(o, "content_base64", contents_base64(file));
	job_free(j);
	call_finish_tool(c, NULL, o, false);
}

static void finish_read(struct job_file *j, const struct contents *file)
{
	struct call *c = j->call;

	if (file->is_image) {
		finish_image(j, file);
	} else if (contents_is_text(file)) {
		job_free(j);
		call_finish_tool(c, json_pack("[o]", call_text(file->data)), NULL, false);
	} else {
		finish_bytes(j, file);
	}
}

static void on_turn(void *ctx, const struct session_file *file)
{
	struct job_file *j = ctx;
	struct call *c = j->call;
	CLEANUP(contents_fini) struct contents contents = { 0 };

	if (contents_read(file, &contents) == 0) {
		finish_read(j, &contents);
		return;
	}
	job_free(j);
	call_fail_tool(c, "internal_error: the file could not be read");
}

static void on_file(void *ctx, struct session_file *file, struct problem *problem)
{
	struct job_file *j = ctx;
	uint64_t limit = call_service(j->call)->settings->mcp_max_read_bytes;
	bool is_large = problem->status == 413 || (!problem->status && file->size > limit);

	if (problem->status && !is_large) {
		job_refuse(j, problem);
		return;
	}
	const struct session *session = job_session(j);
	if (!session)
		return;
	if (is_large)
		fail_too_large(j, session, problem->status ? 0 : file->size);
	else
		turns_wait(j->call->peer->host, file, on_turn, j);
}

static void read_artifact(struct call *c, const json_t *arguments)
{
	const char *path = path_in(c, arguments, "path");
	struct session *session = path ? tool_find_session(c, arguments) : NULL;

	if (!session)
		return;
	struct job_file *j = job_new(c, path);
	job_take_session(j, session);
	session_get_file(session, path, on_file, j);
}

/* --- list_files and list_artifacts --- */

static json_t *entry_json(const struct inventory_entry *e)
{
	static const struct {
		enum inventory_kind kind;
		const char *name;
	} kinds[] = {
		{ INVENTORY_FILE, "file" },
		{ INVENTORY_DIR, "directory" },
		{ INVENTORY_LINK, "link" },
	};
	const char *type = "other";
	char path[4200];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].kind == e->kind)
			type = kinds[i].name;
	}
	(void)snprintf(path, sizeof(path), TOOL_DATA "/%s", e->path);
	json_t *o = json_pack(
		"{s:s,s:s,s:I}", "path", path, "type", type, "size_bytes", (json_int_t)e->size);
	artifacts_set_sha256(o, e);
	return o;
}

static void finish_files(struct job_file *j, const struct inventory *listing)
{
	struct call *c = j->call;
	json_t *list = json_array();

	for (size_t i = 0; i < listing->n; i++) {
		const struct inventory_entry *e = &listing->at[i];

		if (strncmp(e->path, ARTIFACTS_OURS, strlen(ARTIFACTS_OURS)) != 0)
			(void)json_array_append_new(list, entry_json(e));
	}
	job_free(j);
	call_finish_tool(c, NULL,
		json_pack("{s:o,s:b}", "files", list, "truncated", listing->is_cut), false);
}

static void finish_artifacts(struct job_file *j, const struct inventory *listing)
{
	struct call *c = j->call;
	const struct session *session = job_session(j);

	if (!session)
		return;
	json_t *o = json_object();
	artifacts_set(c, session, listing, o);
	AUTO_FREE char *text = json_dumps(o, JSON_COMPACT);
	json_t *content = json_pack("[o]", call_text(text));
	artifacts_add_links(content, session, json_object_get(o, "artifacts"));
	job_free(j);
	call_finish_tool(c, content, o, false);
}

static void on_listed(void *ctx, struct inventory *listing, struct problem *problem)
{
	struct job_file *j = ctx;

	if (problem->status)
		job_refuse(j, problem);
	else if (j->call->tool == &tool_list_files)
		finish_files(j, listing);
	else
		finish_artifacts(j, listing);
}

static void list(struct call *c, const json_t *arguments)
{
	struct session *session = tool_find_session(c, arguments);

	if (!session)
		return;
	struct job_file *j = job_new(c, NULL);
	job_take_session(j, session);
	session_list_files(session, true, on_listed, j);
}

/* --- the rows --- */

#define INPUT(members, required)                                                                   \
	"{" SCHEMA_DIALECT                                                                         \
	",\"type\":\"object\",\"additionalProperties\":false,\"required\":[" required              \
	"],\"properties\":{" SCHEMA_SESSION_ID members "}}"

const struct mcp_tool tool_upload_file = {
	.name = "upload_file",
	.title = "Upload a file",
	.description =
		"Put a file into /mnt/data of a session, which is created if need be. Returns the "
		"path by which code finds it. At most about 6 megabytes of content fit into a call: "
		"upload more in parts, and have code join them. An existing file is only replaced "
		"with overwrite: true.",
	.input_schema =
		INPUT(",\"filename\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024,"
		      "\"description\":\"such as sales.csv or data/sales.csv\"},"
		      "\"content_base64\":{\"type\":\"string\",\"description\":\"its bytes\"},"
		      "\"encoding\":{\"type\":\"string\",\"enum\":[\"base64\"]},"
		      "\"overwrite\":{\"type\":\"boolean\",\"default\":false}",
			"\"session_id\",\"filename\",\"content_base64\""),
	.output_schema = "{" SCHEMA_DIALECT ",\"type\":\"object\",\"required\":[\"path\"],"
			 "\"properties\":{\"path\":{\"type\":\"string\"},"
			 "\"size_bytes\":{\"type\":\"integer\"},"
			 "\"sha256\":{\"type\":\"string\"},"
			 "\"download_url\":{\"type\":\"string\"},"
			 "\"message\":{\"type\":\"string\"}}}",
	.annotations = TOOL_CHANGES,
	.run = upload_file,
};

const struct mcp_tool tool_read_artifact = {
	.name = "read_artifact",
	.title = "Read a file",
	.description =
		"Read a file of a session: a PNG or JPEG comes as an image to look at, a text as "
		"text, anything else as base64. A file that is too large is refused with the "
		"download_url where a program can fetch it.",
	.input_schema = INPUT(",\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,"
			      "\"description\":\"such as /mnt/data/plot.png\"}",
		"\"session_id\",\"path\""),
	/* No output_schema: it would demand structuredContent of an image and of a text. */
	.annotations = TOOL_READS,
	.run = read_artifact,
};

const struct mcp_tool tool_list_files = {
	.name = "list_files",
	.title = "List all files",
	.description = "Everything in /mnt/data of a session, directories and links included, "
		       "sorted by path, with sizes.",
	.input_schema = INPUT("", "\"session_id\""),
	.output_schema = "{" SCHEMA_DIALECT ",\"type\":\"object\",\"required\":[\"files\","
			 "\"truncated\"],\"properties\":{\"files\":{\"type\":\"array\",\"items\":{"
			 "\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"
			 "\"type\":{\"type\":\"string\",\"enum\":[\"file\",\"directory\",\"link\","
			 "\"other\"]},\"size_bytes\":{\"type\":\"integer\"},"
			 "\"sha256\":{\"type\":\"string\"}}}},"
			 "\"truncated\":{\"type\":\"boolean\"}}}",
	.annotations = TOOL_READS,
	.run = list,
};

const struct mcp_tool tool_list_artifacts = {
	.name = "list_artifacts",
	.title = "List artifacts",
	.description = "The files of a session as run_python lists them, with type, size and "
		       "download_url, those that changed last first.",
	.input_schema = INPUT("", "\"session_id\""),
	.output_schema = "{" SCHEMA_DIALECT ",\"type\":\"object\",\"required\":[\"artifacts\"],"
			 "\"properties\":{" ARTIFACTS_SCHEMA "}}",
	.annotations = TOOL_READS,
	.run = list,
};
