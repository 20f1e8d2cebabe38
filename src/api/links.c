#include "api/links.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/percent.h"
#include "base/str.h"
#include "core/file_url.h"
#include "core/settings.h"
#include "core/sign.h"
#include "store/record.h"

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

/* The gate has compared it with the names we have; but behind a UNIX socket it may be any. */
char *links_base(const char *host, bool is_tls)
{
	static const char name[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]";

	if (!host || !host[0] || host[strspn(host, name)])
		return NULL;
	return format("http%s://%s", is_tls ? "s" : "", host);
}

/* Only a proxy on our own socket is believed that its side is encrypted. */
static bool is_encrypted(struct exchange *x)
{
	const char *proto = exchange_header(x, "x-forwarded-proto");

	return exchange_is_tls(x) ||
	       (streq(exchange_peer(x), "unix") && proto && streq(proto, "https"));
}

char *links_here(struct exchange *x)
{
	return links_base(exchange_header(x, "host"), is_encrypted(x));
}

char *links_file(struct exchange *x, const char *session_id, const char *path)
{
	const struct api *api = api_of(x);
	AUTO_FREE char *base = links_here(x);
	struct file_url_maker maker = {
		.settings = api->settings, .secret = api->signing_secret, .base = base
	};

	return file_url_make(&maker, session_id, path, clock_realtime_ns() / 1000000000u);
}
