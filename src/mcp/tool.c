#include "mcp/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/percent.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/file_url.h"
#include "core/mime.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/call.h"
#include "mcp/mcp_peer.h"

/* --- sessions --- */

#define NAME_RULE                                                                                  \
	"a name of up to %u letters, digits, _ - and . that does not begin with a dot, or the id " \
	"of a session of yours that is there"

static const char *name_in(const json_t *arguments)
{
	return json_string_value(json_object_get(arguments, "session_id"));
}

static void fail_unknown(struct call *c, const char *name)
{
	const char *at = session_expired_at(call_service(c), name, &c->peer->who);
	bool is_name = session_name_is_valid(name);

	if (at)
		call_fail_tool(c,
			"session_not_found: the session %s expired at %s, and its files are gone; "
			"run_python, run_code and upload_file begin a new, empty one%s",
			quote(name).text, at, is_name ? "" : " with a name that you choose");
	else if (is_name)
		call_fail_tool(c,
			"session_not_found: there is no session %s; run_python, run_code and "
			"upload_file create it",
			quote(name).text);
	else
		call_fail_tool(c, "session_not_found: session_id: " NAME_RULE, SESSION_NAME_MAX);
}

struct session *tool_find_session(struct call *c, const json_t *arguments)
{
	const char *name = name_in(arguments);
	struct session *session = session_find_named(call_service(c), name, &c->peer->who);

	if (!session)
		fail_unknown(c, name);
	return session;
}

struct obtaining {
	struct call *call;
	tool_session_cb *found;
};

static void on_session(void *ctx, struct session *session, struct problem *problem)
{
	AUTO_FREE struct obtaining *o = ctx;
	struct call *c = o->call;

	if (problem->status) {
		o->found(c, NULL);
		call_refuse_tool(c, problem);
	} else {
		o->found(c, session);
	}
}

static void obtain(struct call *c, const char *name, tool_session_cb *found)
{
	struct service *s = call_service(c);
	AUTO_JSON *body = json_pack("{s:s}", "base_image", s->settings->mcp_image);
	struct problem problem = { 0 };
	struct request request;

	if (c->context)
		(void)json_object_set(body, "context", c->context);
	if (request_parse(body, REQUEST_SESSION, &request, &problem) < 0) {
		found(c, NULL);
		call_refuse_tool(c, &problem);
		problem_fini(&problem);
		return;
	}
	struct session_wish wish = {
		.request = &request,
		.who = &c->peer->who,
		.source = "mcp",
		.name = name,
	};
	const char *at = session_expired_at(s, name, wish.who);
	(void)snprintf(c->expired_at, sizeof(c->expired_at), "%s", at ? at : "");
	struct obtaining *o = xnew(struct obtaining);
	*o = (struct obtaining){ .call = c, .found = found };
	session_obtain(s, &wish, on_session, o);
	request_fini(&request);
}

void tool_obtain_session(struct call *c, const json_t *arguments, tool_session_cb *found)
{
	const char *name = name_in(arguments);
	struct session *session = session_find_named(call_service(c), name, &c->peer->who);

	if (session) {
		found(c, session);
	} else if (session_name_is_valid(name)) {
		obtain(c, name, found);
	} else if (session_expired_at(call_service(c), name, &c->peer->who)) {
		found(c, NULL);
		fail_unknown(c, name);
	} else {
		found(c, NULL);
		call_fail_tool(c, "session_id: " NAME_RULE, SESSION_NAME_MAX);
	}
}

void tool_tell_of_expiry(const struct call *c, json_t *answer)
{
	const char *more = json_string_value(json_object_get(answer, "message"));

	if (c->expired_at[0])
		(void)json_object_set_new(answer, "message",
			json_sprintf("the session had expired at %s: its earlier files and "
				     "variables are gone, and this is a new one%s%s",
				c->expired_at, more ? "; " : "", more ? more : ""));
}

/* --- files --- */

const char *tool_relative_path(const char *path)
{
	static const char *const tops[] = { TOOL_DATA "/", "/workspace/" };

	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		if (strncmp(path, tops[i], strlen(tops[i])) == 0) {
			path += strlen(tops[i]);
			break;
		}
	}
	while (str_after(path, "./"))
		path = str_after(path, "./");
	return artifact_path_is_safe(path) ? path : NULL;
}

char *tool_download_url(const struct call *c, const struct session *session, const char *path)
{
	const struct mcp_peer *p = c->peer;
	const struct settings *settings = call_service(c)->settings;
	struct file_url_maker maker = {
		.settings = settings,
		.secret = p->host->secret,
		.base = p->base[0] ? p->base : NULL,
		.is_local = p->is_local,
	};
	/* A name says nothing without its user, whom a signed URL does not know. */
	const char *id = file_url_is_signed(&maker) ? session->row.id : session_shown_id(session);

	return file_url_make(&maker, id, path, clock_realtime_ns() / 1000000000u);
}

json_t *tool_artifact(
	const struct call *c, const struct session *session, const char *path, uint64_t size)
{
	const char *slash = strrchr(path, '/');
	const char *mime = mime_of_name(path);
	AUTO_FREE char *url = tool_download_url(c, session, path);
	char whole[sizeof(TOOL_DATA) + 4096];

	(void)snprintf(whole, sizeof(whole), TOOL_DATA "/%s", path);
	return json_pack("{s:s,s:s,s:I,s:s,s:s}", "path", whole, "filename",
		slash ? slash + 1 : path, "size_bytes", (json_int_t)size, "mime_type",
		mime ? mime : "application/octet-stream", "download_url", url);
}

char *tool_uri(const struct session *session, const char *path)
{
	AUTO_FREE char *id = percent_encode(session_shown_id(session));
	AUTO_FREE char *encoded = percent_encode(path);
	char *uri = NULL;

	if (asprintf(&uri, "belljar://%s/%s", id, encoded) < 0)
		abort();
	return uri;
}

void tool_add_link(json_t *content, const struct session *session, const json_t *artifact)
{
	const char *path = json_string_value(json_object_get(artifact, "path"));
	AUTO_FREE char *uri = tool_uri(session, path + strlen(TOOL_DATA "/"));
	json_t *link = json_pack("{s:s,s:s,s:O,s:O,s:O}", "type", "resource_link", "uri", uri,
		"name", json_object_get(artifact, "filename"), "mimeType",
		json_object_get(artifact, "mime_type"), "size",
		json_object_get(artifact, "size_bytes"));

	const json_t *sha256 = json_object_get(artifact, "sha256");

	if (link && sha256)
		(void)json_object_set_new(
			link, "_meta", json_pack("{s:O}", TOOL_META_SHA256, sha256));
	if (link)
		(void)json_array_append_new(content, link);
}
