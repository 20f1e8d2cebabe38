#include "api/links.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/settings.h"
#include "core/sign.h"
#include "store/record.h"

static char *percent_encode(const char *text)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	static const char digits[] = "0123456789ABCDEF";
	char *encoded = xcalloc(strlen(text) + 1, 3);
	char *to = encoded;

	for (const char *c = text; *c; c++) {
		if (strchr(plain, *c)) {
			*to++ = *c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[(unsigned char)*c >> 4];
		*to++ = digits[*c & 15];
	}
	return encoded;
}

/* SANDBOX_PUBLIC_URL without a slash at its end; "" when there is none. */
static int base_size(const struct api *api)
{
	const char *base = api->settings->public_url;
	size_t size = base ? strlen(base) : 0;

	while (size > 0 && base[size - 1] == '/')
		size--;
	return (int)size;
}

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *fmt, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, fmt);
	int n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0)
		abort();
	return text;
}

char *links_artifact(const struct api *api, const char *run_id, const char *path)
{
	AUTO_FREE char *encoded = percent_encode(path);
	const char *base = api->settings->public_url;

	return format("%.*s" API_BASE "/runs/%s/artifacts/%s", base_size(api), base ? base : "",
		run_id, encoded);
}

/* "?token=...&exp=...&u=..." when streams are signed, else nothing. */
static char *signature(const struct api *api, const struct run_row *row)
{
	char token[SIGN_SIZE + 1];

	if (!api->settings->ws_signed_urls || !api->signing_secret)
		return xstrdup("");
	uint64_t exp = clock_realtime_ns() / 1000000000u + api->settings->ws_signed_url_ttl_sec;
	AUTO_FREE char *user = percent_encode(row->user_id);
	sign_make(api->signing_secret, row->id, exp, token);
	return format("?token=%s&exp=%llu&u=%s", token, (unsigned long long)exp, user);
}

char *links_stream(const struct api *api, const struct run_row *row, uint64_t from_seq)
{
	AUTO_FREE char *sign = signature(api, row);
	const char *base = api->settings->public_url;
	char from[40] = "";

	if (from_seq > 0)
		(void)snprintf(from, sizeof(from), "%cfrom_seq=%llu", sign[0] ? '&' : '?',
			(unsigned long long)from_seq);
	if (!base)
		return format(API_BASE "/runs/%s/stream%s%s", row->id, sign, from);
	/* http becomes ws, and https wss. */
	return format("ws%.*s" API_BASE "/runs/%s/stream%s%s", base_size(api) - 4, base + 4,
		row->id, sign, from);
}
