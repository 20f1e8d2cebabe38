#include "cli/greet.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/settings.h"
#include "lib/test.h"

#define PROGRAM " -d '{\"base_image\":\"host\",\"command\":[\"python3\",\"-c\",\"print(6*7)\"]}'\n"

static void check(const struct settings *c, const char *key, bool shows_key, const char *want)
{
	AUTO_FREE char *text = greet_text(c, 8080, key, shows_key);

	CHECK_STR(text, want);
}

static char host[] = "127.0.0.1";
static char dir[] = "/root/data";

TEST(where_it_is_and_what_to_try)
{
	char host6[] = "::1";
	char file[] = "/c.pem";

	check(&(struct settings){ .host = host, .keys_dir = dir }, "k1", false,
		"Belljar is ready at http://127.0.0.1:8080\n"
		"Key: in /root/data/api_key\n"
		"Try: curl -s 'http://127.0.0.1:8080/api/v1/sandbox/runs?wait=10'"
		" -H \"X-API-KEY: $(cat '/root/data/api_key')\"" PROGRAM);
	check(&(struct settings){ .host = host6, .tls_cert = file }, NULL, true,
		"Belljar is ready at https://[::1]:8080\n"
		"Key: that of a user; 'belljar user add NAME' makes one\n"
		"Try: curl -s 'https://[::1]:8080/api/v1/sandbox/runs?wait=10'"
		" -H \"X-API-KEY: <your key>\"" PROGRAM);
}

TEST(curl_is_told_of_a_socket)
{
	char path[] = "/run/belljar/socket";

	check(&(struct settings){ .host = host, .keys_dir = dir, .socket = path }, "k1", false,
		"Belljar is ready at unix:/run/belljar/socket\n"
		"Key: in /root/data/api_key\n"
		"Try: curl -s --unix-socket '/run/belljar/socket'"
		" 'http://localhost/api/v1/sandbox/runs?wait=10'"
		" -H \"X-API-KEY: $(cat '/root/data/api_key')\"" PROGRAM);
}

TEST(a_key_is_shown_to_a_person_once_and_never_in_a_url)
{
	struct settings c = { .host = host, .keys_dir = dir };
	AUTO_FREE char *text = greet_text(&c, 8080, "bj_k1", true);
	const char *found = strstr(text, "bj_k1");

	CHECK(strstr(text, "\nKey: bj_k1 (in /root/data/api_key)\n") != NULL);
	CHECK(found && !strstr(found + 1, "bj_k1"));
}

TEST(a_key_that_was_given_is_not_repeated)
{
	char key[] = "bj_given";
	struct settings c = { .host = host, .keys_dir = dir, .api_key = key };

	for (int shows = 0; shows < 2; shows++) {
		AUTO_FREE char *text = greet_text(&c, 8080, key, shows == 1);

		CHECK(!strstr(text, key));
		CHECK(strstr(text, "\nKey: the value of SANDBOX_API_KEY\n") != NULL);
		CHECK(strstr(text, "-H \"X-API-KEY: $SANDBOX_API_KEY\"") != NULL);
	}
}

TESTS(UNIT(where_it_is_and_what_to_try), UNIT(curl_is_told_of_a_socket),
	UNIT(a_key_is_shown_to_a_person_once_and_never_in_a_url),
	UNIT(a_key_that_was_given_is_not_repeated))
