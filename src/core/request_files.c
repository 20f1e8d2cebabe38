#include "core/request.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/str.h"
#include "core/manifest.h"
#include "core/problem.h"
#include "core/request_private.h"

void request_free_files(struct upload_inline *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((void *)files[i].data);
	free(files);
}

/* How many bytes a text stands for, if it is base64: to know before there is room for them. */
static size_t decoded_size(const json_t *text)
{
	const char *chars = json_string_value(text);
	size_t size = json_string_length(text);
	size_t n = BASE64_BYTES_SIZE(size);

	for (; n > 0 && size > 0 && chars[size - 1] == '='; size--)
		n--;
	return n;
}

/* `i` is the first that does not fit any more. */
static int refuse_size(struct problem *problem, size_t i, uint64_t max_bytes)
{
	char field[48];

	(void)snprintf(field, sizeof(field), "files[%zu].content_b64", i);
	(void)problem_set(problem, "payload_too_large",
		"%s: the inline files are larger than their limit of %llu bytes together", field,
		(unsigned long long)max_bytes);
	problem_add(problem, "field", json_string(field));
	problem_add(problem, "limit_bytes", json_integer((json_int_t)max_bytes));
	return -1;
}

static int decode_file(
	const json_t *item, size_t i, struct upload_inline *ret, struct problem *problem)
{
	const json_t *text = json_object_get(item, "content_b64");

	uint8_t *data = xcalloc(1, BASE64_BYTES_SIZE(json_string_length(text)) + 1);
	ret->path = json_string_value(json_object_get(item, "path"));
	ret->data = data;
	if (base64_decode(json_string_value(text), json_string_length(text), data, &ret->size) < 0)
		return request_refuse_file(problem, i, "content_b64 is not valid base64");
	return 0;
}

int request_decode_files(const struct request *r, uint64_t max_bytes, struct upload_inline **ret,
	size_t *ret_n, struct problem *problem)
{
	size_t n = json_array_size(r->files);
	struct upload_inline *files = xcalloc(n + 1, sizeof(*files));
	uint64_t left = max_bytes;

	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(r->files, i);
		bool fits = decoded_size(json_object_get(item, "content_b64")) <= left;

		if (!fits || decode_file(item, i, &files[i], problem) < 0) {
			request_free_files(files, n);
			return fits ? -1 : refuse_size(problem, i, max_bytes);
		}
		left -= files[i].size;
	}
	*ret = files;
	*ret_n = n;
	return 0;
}

/* As the box would find them: each path once, and none below another's. */
static int check_paths(struct manifest *m, struct problem *problem)
{
	(void)manifest_settle(m);
	for (size_t i = 0; i < m->n; i++) {
		const struct manifest_entry *e = &m->at[i];

		if (!e->dropped)
			continue;
		(void)request_refuse_file(problem, i,
			e->is_lost ? "another path makes its directory a file"
				   : "another one has the same path");
		problem_add(problem, "path", json_string(e->name));
		return -1;
	}
	return 0;
}

int request_check_paths(const struct upload_inline *files, size_t n, struct problem *problem)
{
	CLEANUP(manifest_fini) struct manifest m = { 0 };
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct manifest_entry e = { .name = (char *)files[i].path };

		if (manifest_add(&m, &e, &err) < 0)
			return request_refuse_file(problem, i, err.text);
	}
	return check_paths(&m, problem);
}

/* An upload leaves them out and counts them; a run would start without what it needs. */
int request_check_binaries(
	const struct upload_inline *files, size_t n, char *const *allow, struct problem *problem)
{
	for (size_t i = 0; i < n; i++)
		if (upload_is_binary(files[i].data, files[i].size) &&
			!upload_may_be_binary(allow, files[i].path))
			return request_refuse_file(problem, i,
				"programs and other binary files are blocked here, but for what "
				"SANDBOX_UPLOAD_BINARIES_ALLOW names");
	return 0;
}
