/* Input: the words of a command line, each ended by a NUL byte. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/command.h"
#include "cli/option.h"

#define WORDS_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct values {
	bool json;
	bool quiet;
	const char *image;
	uint64_t memory;
	uint64_t timeout_ms;
	uint64_t cpu_milli;
	uint64_t pids;
	struct option_list env;
};

#define AT(field) offsetof(struct values, field)

static const struct option_row options[] = {
	{ "--json", 0, OPTION_FLAG, AT(json), NULL, "" },
	{ "--quiet", 'q', OPTION_FLAG, AT(quiet), NULL, "" },
	{ "--image", 'i', OPTION_STRING, AT(image), "NAME", "" },
	{ "--memory", 'm', OPTION_BYTES, AT(memory), "SIZE", "" },
	{ "--timeout", 't', OPTION_DURATION, AT(timeout_ms), "TIME", "" },
	{ "--cpu", 'c', OPTION_MILLI, AT(cpu_milli), "CORES", "" },
	{ "--pids", 0, OPTION_NUMBER, AT(pids), "N", "" },
	{ "--env", 'e', OPTION_LIST, AT(env), "NAME=VALUE", "" },
	{ 0 },
};

static const struct command command = { .name = "fuzz", .summary = "", .options = options };

/* Help goes where nobody sees it. */
static void silence_stdout(void)
{
	static bool done;

	if (!done && !freopen("/dev/null", "w", stdout))
		abort();
	done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[WORDS_MAX + 1] = { (char *)"fuzz" };
	int argc = 1;
	struct values v = { 0 };
	struct err err = { 0 };
	char *text = malloc(size + 1);

	silence_stdout();
	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	for (char *p = text; p < text + size && argc < WORDS_MAX; p += strlen(p) + 1)
		argv[argc++] = p;
	int r = option_parse(&command, argc, argv, &v, &err);
	if (r > argc || (r < 0) != (err.text[0] != '\0') || (v.image && v.image < text))
		abort();
	option_list_fini(&v.env);
	free(text);
	return 0;
}
