/* Signatures of stream URLs: who was given one may open this run's stream until then. */
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
