#include "cli/greet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
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

/* What curl is told: a URL, with a socket the name in it is any. */
static char *curl_place(const struct settings *c, const char *where)
{
	char *text = NULL;
	int n = c->socket ? asprintf(&text, "--unix-socket '%s' '%s://localhost", c->socket,
				    scheme(c))
			  : asprintf(&text, "'%s", where);

	if (n < 0)
		abort();
	return text;
}

char *greet_text(const struct settings *c, uint16_t port, const char *key)
{
	char where[BEACON_URL_MAX];
	char *text = NULL;

	greet_where(c, port, where, sizeof(where));
	AUTO_FREE char *place = curl_place(c, where);
	if (asprintf(&text,
		    "Belljar is ready at %s%s%s\n"
		    "Try: curl -s %s/api/v1/sandbox/runs?wait=10' -H 'X-API-KEY: %s'"
		    " -d '{\"base_image\":\"host\",\"command\":[\"python3\",\"-c\","
		    "\"print(6*7)\"]}'\n",
		    where, key ? "/?key=" : "", key ? key : "", place,
		    key ? key : "<your key>") < 0)
		abort();
	return text;
}
