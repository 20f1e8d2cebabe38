/* Input: a URL. One that passes is shown and scrubbed without what stands before its "@". */
#include "core/git_url.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(const char *url)
{
	char shown[GIT_URL_MAX + 1];
	char scrubbed[GIT_URL_MAX + 1];
	struct err err = { 0 };
	char names[][8] = { "https", "http", "git", "file" };
	char *const allow[] = { names[0], names[1], names[2], names[3], NULL };

	git_url_show(url, shown, sizeof(shown));
	(void)snprintf(scrubbed, sizeof(scrubbed), "%s", url);
	git_url_scrub(url, scrubbed);
	int r = git_url_check(url, allow, &err);
	if (r < 0 && !err.text[0])
		abort();
	if (r == 0 && (strchr(shown, '?') || git_url_check(shown, allow, NULL) < 0))
		abort();
	if (strlen(scrubbed) != strlen(url))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char url[GIT_URL_MAX + 1];

	(void)snprintf(url, sizeof(url), "%.*s", (int)size, (const char *)data);
	check_shown(url);
	return 0;
}
