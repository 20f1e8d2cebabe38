#include "core/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/policy.h"
#include "core/utf8.h"

/* Until a server that ends has made room for the next. */
#define RESTART_SEC 5

static const struct code {
	const char *code;
	int status;
	uint64_t retry_after; /* seconds, unless whoever refuses knows better */
	const char *field;    /* that it is always about; else whoever refuses says */
} codes[] = {
	{ "invalid_request", 422 },
	{ "invalid_json", 400 },
	{ "invalid_path", 400 },
	{ "invalid_range", 416 },
	{ "invalid_spec_version", 400 },
	{ "invalid_inline_file", 422 },
	{ "invalid_upload", 422, 0, "files" },
	{ "invalid_git", 422, 0, "git" },
	{ "git_failed", 422, 0, "git" },
	{ "session_base_image_required", 422, 0, "session_id" },
	{ "policy_unsupported", 422 },
	{ "image_pull_failed", 422, 0, "base_image" },
	{ "unauthorized", 401 },
	{ "forbidden", 403 },
	{ "approval_required", 403 },
	{ "policy_denied", 403 },
	{ "not_found", 404 },
	{ "run_not_found", 404 },
	{ "session_not_found", 404 },
	{ "snapshot_not_found", 404 },
	{ "artifact_not_found", 404 },
	{ "file_not_found", 404 },
	{ "output_not_found", 404 },
	{ "method_not_allowed", 405 },
	{ "protocol_version_unsupported", 426 },
	{ "idempotency_conflict", 409 },
	{ "session_has_active_runs", 409 },
	{ "session_name_taken", 409 },
	{ "restore_unfinished", 409 },
	{ "session_cancel_drain_timeout", 409 },
	{ "approval_not_pending", 409 },
	{ "workspace_lost", 410 },
	{ "workspace_cap_exceeded", 413 },
	{ "payload_too_large", 413 },
	{ "snapshot_too_large", 413 },
	{ "unsupported_media_type", 415 },
	{ "queue_full", 429 },
	{ "quota_exceeded", 429 },
	{ "rate_limited", 429 },
	{ "internal_error", 500 },
	{ "runtime_unavailable", 503 },
	{ "shutting_down", 503, RESTART_SEC },
	{ "insufficient_storage", 507 },
	{ "store_unavailable", 503 },
};

static const struct code *find_code(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (streq(codes[i].code, code))
			return &codes[i];
	}
	return NULL;
}

int problem_status(const char *code)
{
	const struct code *known = find_code(code);

	return known ? known->status : 500;
}

/* What somebody sent may have been cut within a character, and then could not be sent back. */
static void make_utf8(char *text)
{
	size_t size = strlen(text);
	size_t tail;

	for (size_t at = 0; (at += utf8_span(text + at, size - at, &tail)) < size;)
		text[at++] = '?';
}

void problem_add(struct problem *p, const char *key, json_t *value)
{
	if (!p->details)
		p->details = json_object();
	(void)json_object_set_new(p->details, key, value);
}

/* The arguments may point into `p`. */
__attribute__((format(printf, 3, 0))) static void set(
	struct problem *p, const char *code, const char *fmt, va_list args)
{
	char message[sizeof(p->message)] = "";

	(void)vsnprintf(message, sizeof(message), fmt, args);
	make_utf8(message);
	problem_fini(p);
	const struct code *known = find_code(code);
	p->code = code;
	p->status = known ? known->status : 500;
	p->retry_after = known ? known->retry_after : 0;
	memcpy(p->message, message, sizeof(message));
	if (known && known->field)
		problem_add(p, "field", json_string(known->field));
}

int problem_set(struct problem *p, const char *code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	set(p, code, fmt, args);
	va_end(args);
	return -1;
}

int problem_field(struct problem *p, const char *field, const char *fmt, ...)
{
	char text[200];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)problem_set(p, "invalid_request", "%.50s: %s", field, text);
	problem_add(p, "field", json_string(field));
	return -1;
}

int problem_from_policy(struct problem *p, struct policy_refusal *refusal)
{
	(void)problem_set(p, refusal->code, "%s", refusal->message);
	p->details = TAKE(refusal->details);
	return -1;
}

void problem_fini(struct problem *p)
{
	json_decref(p->details);
	*p = (struct problem){ 0 };
}
