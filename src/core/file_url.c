#include "core/file_url.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/percent.h"
#include "base/str.h"
#include "core/settings.h"
#include "core/sign.h"

bool file_url_is_signed(const struct file_url_maker *m)
{
	return m->secret && (m->settings->files_signed_urls || m->is_local);
}

/* "?token=...&exp=..." when files are signed, else nothing. */
static void write_signature(const struct file_url_maker *m, const char *session_id,
	const char *path, uint64_t now_sec, char buf[SIGN_SIZE + 48])
{
	char token[SIGN_SIZE + 1];
	uint64_t exp = now_sec + m->settings->files_signed_url_ttl_sec;

	buf[0] = '\0';
	if (!file_url_is_signed(m))
		return;
	enum sign_reach reach = m->settings->files_signed_urls ? SIGN_REMOTE : SIGN_LOCAL;
	sign_make_file(m->secret, reach, session_id, path, exp, token);
	(void)snprintf(buf, SIGN_SIZE + 48, "?token=%s&exp=%" PRIu64, token, exp);
}

char *file_url_make(
	const struct file_url_maker *m, const char *session_id, const char *path, uint64_t now_sec)
{
	const char *base = m->settings->public_url ? m->settings->public_url : m->base;
	AUTO_FREE char *id = percent_encode(session_id);
	AUTO_FREE char *encoded = percent_encode(path);
	char signature[SIGN_SIZE + 48];
	size_t size = base ? strlen(base) : 0;
	char *url = NULL;

	while (size > 0 && base[size - 1] == '/')
		size--;
	write_signature(m, session_id, path, now_sec, signature);
	if (asprintf(&url, "%.*s/files/%s/%s%s", (int)size, base ? base : "", id, encoded,
		    signature) < 0)
		abort();
	return url;
}
