#include "mcp/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "core/stream.h"
#include "core/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Bytes from the start that need no replacement. */
static size_t clean_span(const char *data, size_t size)
{
	size_t tail;
	size_t n = utf8_span(data, size, &tail);
	const char *nul = memchr(data, '\0', n);

	return nul ? (size_t)(nul - data) : n;
}

json_t *output_text(const char *data, size_t size)
{
	size_t n = clean_span(data, size);

	if (n == size)
		return json_stringn_nocheck(data, size);
	AUTO_FREE char *text = xcalloc(3, size + 1);
	size_t at = 0;
	for (size_t i = 0; i < size; i += n) {
		n = clean_span(data + i, size - i);
		memcpy(text + at, data + i, n);
		at += n;
		if (i + n == size)
			break;
		memcpy(text + at, REPLACEMENT, 3);
		at += 3;
		n++;
	}
	return json_stringn_nocheck(text, at);
}

/* Bytes at the start that go on with a character which began before. */
static size_t rest_of_character(const char *data, size_t size)
{
	size_t n = 0;

	while (n < size && n < 3 && ((unsigned char)data[n] & 0xc0) == 0x80)
		n++;
	return n;
}

json_t *output_join(
	const char *head, size_t n_head, const char *tail, size_t n_tail, uint64_t total)
{
	bool is_whole = n_head + n_tail == total;
	size_t skip = is_whole ? 0 : rest_of_character(tail, n_tail);
	char line[120] = "";

	n_head -= is_whole ? 0 : utf8_tail(head, n_head);
	n_tail -= skip;
	int n_line = is_whole ? 0
			      : snprintf(line, sizeof(line),
					"\n[... %llu of %llu bytes are not shown here ...]\n",
					(unsigned long long)(total - n_head - n_tail),
					(unsigned long long)total);
	AUTO_FREE char *text = xcalloc(1, n_head + n_tail + (size_t)n_line + 1);
	memcpy(text, head, n_head);
	memcpy(text + n_head, line, (size_t)n_line);
	memcpy(text + n_head + n_line, tail + skip, n_tail);
	return output_text(text, n_head + n_tail + (size_t)n_line);
}

json_t *output_read(struct stream *s, bool is_err, size_t max, bool *ret_is_cut)
{
	struct stream_part part = { .which = is_err ? FRAME_STDERR : FRAME_STDOUT, .max = max };
	AUTO_FREE char *head = NULL;
	AUTO_FREE char *tail = NULL;
	size_t n_head = 0;
	size_t n_tail = 0;
	uint64_t total = 0;

	if (!s)
		return json_string("");
	if (stream_was_truncated(s))
		*ret_is_cut = true; /* over the log cap */
	if (stream_read_part(s, &part, &head, &n_head, &total) < 0) {
		*ret_is_cut = true;
		return json_string("[the output can not be read]");
	}
	uint64_t over = stream_read_over(s, part.which, max / 2, &tail, &n_tail);
	if (total <= n_head && over == 0)
		return output_text(head, n_head);
	/* What is over the cap of the log may be all there is of this one. */
	if (total <= n_head && over == n_tail && n_head + n_tail <= max)
		return output_join(head, n_head, tail, n_tail, total + over);
	*ret_is_cut = true;
	part.max = max / 2;
	part.offset = total - part.max;
	if (over == 0 && stream_read_part(s, &part, &tail, &n_tail, &total) < 0)
		n_tail = 0;
	return output_join(
		head, n_head < max / 2 ? n_head : max / 2, tail ? tail : "", n_tail, total + over);
}

/* --- tracebacks --- */

static const char *at_line_start(const char *text, const char *words)
{
	size_t size = strlen(words);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, words, size) == 0)
			return at;
		if (!*at)
			break;
	}
	return NULL;
}

#define TRACEBACK "Traceback (most recent call last):"
#define OF_GROUP  "  + Exception Group "

static bool is_before_frame(const char *rest)
{
	return *rest == '\n' && str_after(rest + 1 + strspn(rest + 1, " |"), "File \"");
}

/* Behind what was printed without a newline, such as a bar of progress, it is one if a frame
 * follows. */
static const char *find_header(const char *text)
{
	const size_t before = strlen(OF_GROUP);

	for (const char *at = text; (at = strstr(at, TRACEBACK)); at++) {
		bool is_of_group = (size_t)(at - text) >= before &&
				   strncmp(at - before, OF_GROUP, before) == 0;
		const char *start = is_of_group ? at - before : at;

		if (start == text || start[-1] == '\n' || is_before_frame(at + strlen(TRACEBACK)))
			return start;
	}
	return NULL;
}

/* A SyntaxError has no first line of its own. */
const char *output_find_traceback(const char *text, const char *code_name)
{
	const char *at = find_header(text);
	char file[80];

	(void)snprintf(file, sizeof(file), "  File \"%s\", line", code_name);
	return at ? at : at_line_start(text, file);
}

/* Behind the first line that is not indented, which names the exception; a group has none such. */
static const char *end_of_block(const char *at)
{
	bool is_of_group = str_after(at, OF_GROUP) != NULL;
	const char *line = at;

	for (;;) {
		const char *newline = strchr(line, '\n');
		bool is_last = line != at && *line != ' ';

		if (is_last && is_of_group)
			return line;
		if (!newline)
			return line + strlen(line);
		line = newline + 1;
		if (is_last || !*line)
			return line;
	}
}

/* Messages and notes of many lines can not be told from what was printed by others: so much is
 * taken as such. */
const char *output_bound_traceback(const char *start, size_t *ret_size)
{
	const char *end = end_of_block(start);

	for (const char *next; (next = find_header(end));) {
		if ((size_t)(next - end) > OUTPUT_MESSAGE_MAX)
			start = next;
		end = end_of_block(next);
	}
	size_t rest = strlen(end);
	if (rest > OUTPUT_MESSAGE_MAX) {
		const char *cut = memrchr(end, '\n', OUTPUT_MESSAGE_MAX);

		rest = cut ? (size_t)(cut + 1 - end) : 0;
	}
	*ret_size = (size_t)(end - start) + rest;
	return start;
}

json_t *output_traceback(struct stream *s, const char *code_name, bool *ret_is_cut)
{
	struct stream_part part = { .which = FRAME_STDERR, .max = OUTPUT_TRACEBACK_MAX };
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	uint64_t total = 0;

	if (!s)
		return json_null();
	uint64_t over = stream_read_over(s, part.which, part.max, &text, &size);
	if (over == 0 && stream_read_part(s, &part, &text, &size, &total) < 0)
		return json_null();
	if (over == 0 && total > size) {
		free(TAKE(text));
		part.offset = total - OUTPUT_TRACEBACK_MAX;
		if (stream_read_part(s, &part, &text, &size, &total) < 0)
			return json_null();
	}
	if (!text)
		return json_null();
	/* A NUL must not hide what follows it. */
	for (char *nul = text; (nul = memchr(nul, '\0', size - (size_t)(nul - text)));)
		*nul = '?';
	const char *at = output_find_traceback(text, code_name);
	if (!at)
		return json_null();
	at = output_bound_traceback(at, &part.max);
	if (at[part.max])
		*ret_is_cut = true;
	return output_text(at, part.max);
}
