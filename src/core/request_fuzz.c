/* Input: a JSON text, taken for the body of both kinds of requests. What is refused is refused with
 * a sentence that can be sent back; what is accepted is stored, and what was stored is
 * accepted again and means the same. */
#include "core/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/settings.h"

#define FILES_MAX (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problem(struct problem *p)
{
	AUTO_JSON *message = json_string(p->message);

	if (!message || !p->message[0] || p->status < 400 || p->status > 499)
		abort();
	problem_fini(p);
}

static void decode(const struct request *r)
{
	struct problem p = { 0 };
	struct upload_inline *files = NULL;
	size_t n = 0;
	uint64_t total = 0;

	if (request_decode_files(r, FILES_MAX, &files, &n, &p) < 0) {
		if (files)
			abort();
		check_problem(&p);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!files[i].path || !files[i].data)
			abort();
		total += files[i].size;
	}
	if (n != json_array_size(r->files) || total > FILES_MAX)
		abort();
	request_free_files(files, n);
}

static char native[] = "native";
static const struct settings defaults = {
	.default_runtime = native,
	.exec_timeout_sec = 60,
	.startup_timeout_sec = 20,
};

static void check_again(const struct request *r, enum request_kind kind)
{
	struct request again;
	struct problem p = { 0 };
	AUTO_JSON *stored = NULL;
	AUTO_FREE char *text = json_canonical(r->body);
	char prints[2][65];

	if (json_read(text, strlen(text), &stored, NULL) < 0)
		abort();
	if (request_parse(stored, kind, &again, &p) < 0)
		abort();
	request_fingerprint(r, kind, &defaults, prints[0]);
	request_fingerprint(&again, kind, &defaults, prints[1]);
	if (!streq(prints[0], prints[1]) || !json_equal(r->body, again.body))
		abort();
	if (r->cpu_milli != again.cpu_milli || r->memory_mb != again.memory_mb)
		abort();
	request_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum request_kind kinds[] = { REQUEST_SESSION, REQUEST_RUN };
	AUTO_JSON *body = NULL;

	if (json_read((const char *)data, size, &body, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct problem p = { 0 };
		struct request r;

		if (request_parse(body, kinds[i], &r, &p) < 0) {
			check_problem(&p);
			continue;
		}
		check_again(&r, kinds[i]);
		decode(&r);
		request_fini(&r);
	}
	return 0;
}
