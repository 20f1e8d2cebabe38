/* Signatures of URLs: who was given one may open this run's stream, or read this file of a
 * session, until then. A signature of one kind is never good for the other. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;
struct settings;

/* Lower-case hexadecimal digits of an HMAC-SHA256. */
#define SIGN_SIZE 64

/* SANDBOX_WS_SIGNING_SECRET, else that of <root>/signing_secret, which is made when it is
 * missing. The caller gives it to keyfile_wipe(). */
int sign_load_secret(const struct settings *c, char **ret, struct err *err);

/* The token for `run_id` until `exp_sec`, seconds since 1970: HMAC over "{run_id}:{exp}". */
void sign_make(const char *secret, const char *run_id, uint64_t exp_sec, char ret[SIGN_SIZE + 1]);

/* `exp` as it was in the URL: seconds since 1970, or the same moment as ISO 8601. 0; -EACCES
 * when the token is not this run's and moment's, or something is missing (NULL); -ETIME when
 * it was, but the moment has come. */
int sign_check(const char *secret, const char *run_id, const char *exp, const char *token,
	uint64_t now_sec);

/* Who was given the URL of a file. */
enum sign_reach {
	SIGN_REMOTE, /* any client; the URL is good where SANDBOX_FILES_SIGNED_URLS allows that */
	SIGN_LOCAL,  /* a client on this machine, by the server's local socket: `belljar mcp` */
};

/* The same for the file at `path` in the workspace of a session. */
void sign_make_file(const char *secret, enum sign_reach reach, const char *session_id,
	const char *path, uint64_t exp_sec, char ret[SIGN_SIZE + 1]);

/* What a URL of such a file says. */
struct sign_claim {
	const char *session_id;
	const char *path;
	const char *exp;   /* NULL: there was none */
	const char *token; /* the same */
};
int sign_check_file(const char *secret, enum sign_reach reach, const struct sign_claim *claim,
	uint64_t now_sec);
