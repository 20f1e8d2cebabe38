#include "cli/greet.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/settings.h"
#include "lib/test.h"

#define PROGRAM " -d '{\"base_image\":\"host\",\"command\":[\"python3\",\"-c\",\"print(6*7)\"]}'\n"

static void check(const struct settings *c, const char *key, const char *want)
{
	AUTO_FREE char *text = greet_text(c, 8080, key);

	CHECK_STR(text, want);
}

TEST(where_it_is_and_what_to_try)
{
	char host[] = "127.0.0.1";
	char host6[] = "::1";
	char file[] = "/c.pem";

	check(&(struct settings){ .host = host }, "k",
		"Belljar is ready at http://127.0.0.1:8080/?key=k\n"
		"Try: curl -s 'http://127.0.0.1:8080/api/v1/sandbox/runs?wait=10'"
		" -H 'X-API-KEY: k'" PROGRAM);
	check(&(struct settings){ .host = host6, .tls_cert = file }, NULL,
		"Belljar is ready at https://[::1]:8080\n"
		"Try: curl -s 'https://[::1]:8080/api/v1/sandbox/runs?wait=10'"
		" -H 'X-API-KEY: <your key>'" PROGRAM);
}

TEST(curl_is_told_of_a_socket)
{
	char host[] = "127.0.0.1";
	char path[] = "/run/belljar/socket";

	check(&(struct settings){ .host = host, .socket = path }, "k",
		"Belljar is ready at unix:/run/belljar/socket/?key=k\n"
		"Try: curl -s --unix-socket '/run/belljar/socket'"
		" 'http://localhost/api/v1/sandbox/runs?wait=10' -H 'X-API-KEY: k'" PROGRAM);
}

TESTS(UNIT(where_it_is_and_what_to_try), UNIT(curl_is_told_of_a_socket))
