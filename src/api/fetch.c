/* GET /files/{id}/{path}: a file of a session's workspace, for programs that were given its URL.
 *
 * The file is copied out of the workspace by a box first (core/session_fetch.c), so each answer
 * takes some of the disk while it goes: how many a user may have under way is limited. Who may
 * read it is its owner, by the usual credentials, or whoever has a URL that we signed for this very
 * file: for `belljar mcp` always, for other clients where the settings say so. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "api/api.h"
#include "api/attachment.h"
#include "api/gate.h"
#include "api/reply.h"
#include "core/artifact.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session.h"
#include "core/settings.h"
#include "core/sign.h"

/* --- the answer --- */

static void on_file(void *ctx, struct session_file *file, struct problem *problem)
{
	struct exchange *x = ctx;

	if (problem->status) {
		reply_problem(x, problem);
		return;
	}
	struct attachment a = {
		.path = exchange_param(x, "path"),
		.mime = file->mime,
		.sha256 = file->sha256,
		.fd = take_fd(&file->fd),
		.offset = file->offset,
		.size = file->size,
	};
	attachment_reply(x, &a);
}

/* --- who comes --- */

/* 0 for a signature that is right, -ETIME for one that was. */
static int check_signature(struct exchange *x, enum sign_reach reach)
{
	struct sign_claim claim = {
		.session_id = exchange_param(x, "id"),
		.path = exchange_param(x, "path"),
		.exp = exchange_query(x, "exp"),
		.token = exchange_query(x, "token"),
	};

	return sign_check_file(api_of(x)->signing_secret, reach, &claim, (uint64_t)time(NULL));
}

/* Where URLs are signed for everybody, a signature that is there must be right, whoever brings
 * it. Elsewhere only those of local clients mean something. Negative when it was answered. */
static int find_signature(struct exchange *x, bool *ret_is_signed)
{
	bool is_for_all = api_of(x)->settings->files_signed_urls;
	bool is_there = exchange_query(x, "token") || exchange_query(x, "exp");
	int r = is_there ? check_signature(x, is_for_all ? SIGN_REMOTE : SIGN_LOCAL) : -EACCES;

	*ret_is_signed = r == 0;
	if (!is_there || r == 0 || (r == -EACCES && !is_for_all))
		return 0;
	reply_refusal(x, "forbidden",
		r == -ETIME ? "this signed URL has expired" : "the signature is wrong");
	return r;
}

/* The session, if whoever asks may read from it; else it has answered. Nothing is said of
 * sessions to who has neither credentials nor a signature. */
static struct session *find_session(struct exchange *x)
{
	const struct identity *who = api_who(x);
	bool is_signed = false;

	if (find_signature(x, &is_signed) < 0)
		return NULL;
	if (!is_signed && !who) {
		reply_unauthorized(x);
		return NULL;
	}
	/* A name is one of this user's; only an id is signed. */
	const char *id = exchange_param(x, "id");
	struct service *s = api_of(x)->service;
	struct session *session =
		is_signed ? session_find(s, id, NULL) : session_find_named(s, id, who);
	if (session && session_is_open(session))
		return session;
	reply_refusal(x, "session_not_found", "there is no such session");
	return NULL;
}

/* Counted for the owner, who gave the URL away: a copy lies on the disk until it is sent. */
static int check_copies(struct exchange *x, const char *owner)
{
	struct identity who = { 0 };
	struct problem p = { 0 };
	size_t n_large = 0;

	(void)snprintf(who.user_id, sizeof(who.user_id), "%s", owner);
	api_set_who(x, &who, true);
	(void)api_count_open(api_of(x), owner, &n_large);
	if (n_large <= GATE_LARGE_MAX)
		return 0;
	(void)problem_set(&p, "rate_limited", "more than %u files of one user at the same time",
		GATE_LARGE_MAX);
	problem_add(&p, "scope", json_string("user"));
	p.retry_after = 1;
	reply_problem(x, &p);
	problem_fini(&p);
	return -EBUSY;
}

/* As it came too: what a proxy before us would have made of it. */
static bool is_path_safe(const struct exchange *x)
{
	return artifact_path_is_safe(exchange_param(x, "path")) &&
	       artifact_path_is_safe(exchange_param_raw(x, "path"));
}

static void handle_fetch(struct exchange *x)
{
	struct session *session = find_session(x);

	if (!session)
		return;
	if (!is_path_safe(x)) {
		reply_refusal(x, "invalid_path", "a file can not have this path");
		return;
	}
	if (check_copies(x, session->row.user_id) == 0)
		session_get_file(session, exchange_param(x, "path"), on_file, x);
}

/* Public to the gate, since a signature is as good as a key: find_session() decides. */
const struct route routes_fetch[] = {
	{ "GET", "/files/{id}/{path*}", ACCESS_PUBLIC, BODY_NONE, 0, handle_fetch },
	{ 0 },
};
