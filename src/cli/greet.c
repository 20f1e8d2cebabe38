#include "cli/greet.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/beacon.h"
#include "core/settings.h"

static const char *scheme(const struct settings *c)
{
	return c->tls_cert ? "https" : "http";
}

void greet_where(const struct settings *c, uint16_t port, char *ret, size_t size)
{
	bool is_v6 = strchr(c->host, ':') != NULL;

	if (c->socket)
		(void)snprintf(ret, size, "unix:%s", c->socket);
	else
		(void)snprintf(ret, size, "%s://%s%s%s:%u", scheme(c), is_v6 ? "[" : "", c->host,
			is_v6 ? "]" : "", (unsigned)port);
}

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, fmt);
	int n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0)
		abort();
	return text;
}

/* What curl is told: a URL, with a socket the name in it is any. */
static char *curl_place(const struct settings *c, const char *where)
{
	return c->socket ? format("--unix-socket '%s' '%s://localhost", c->socket, scheme(c))
			 : format("'%s", where);
}

/* For a person. A key from the environment is known to whoever set it; on a terminal it would
 * only be shown to others. */
static char *key_line(const struct settings *c, const char *key, bool shows_key)
{
	if (!key)
		return xstrdup("that of a user; 'belljar user add NAME' makes one");
	if (c->api_key)
		return xstrdup("the value of SANDBOX_API_KEY");
	return shows_key ? format("%s (in %s/api_key)", key, c->keys_dir)
			 : format("in %s/api_key", c->keys_dir);
}

/* For a shell, which finds the key itself: it is neither in our output nor in a history. */
static char *key_word(const struct settings *c, const char *key)
{
	if (!key)
		return xstrdup("<your key>");
	if (c->api_key)
		return xstrdup("$SANDBOX_API_KEY");
	return format("$(cat '%s/api_key')", c->keys_dir);
}

char *greet_text(const struct settings *c, uint16_t port, const char *key, bool shows_key)
{
	char where[BEACON_URL_MAX];

	greet_where(c, port, where, sizeof(where));
	AUTO_FREE char *place = curl_place(c, where);
	AUTO_FREE char *line = key_line(c, key, shows_key);
	AUTO_FREE char *word = key_word(c, key);
	return format("Belljar is ready at %s\n"
		      "Key: %s\n"
		      "Try: curl -s %s/api/v1/sandbox/runs?wait=10' -H \"X-API-KEY: %s\""
		      " -d '{\"base_image\":\"host\",\"command\":[\"python3\",\"-c\","
		      "\"print(6*7)\"]}'\n",
		where, line, place, word);
}
