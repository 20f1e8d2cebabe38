#include "bridge/answer.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "http/head.h"

static int take_length(struct answer *a, const char *value)
{
	return str_parse_u64(value, INT64_MAX, &a->left) < 0 ? -EBADMSG : 0;
}

static int take_encoding(struct answer *a, const char *value)
{
	a->is_chunked = strcasecmp(value, "chunked") == 0;
	return a->is_chunked ? 0 : -EBADMSG;
}

static int take_connection(struct answer *a, const char *value)
{
	a->keeps_alive = !head_has_word(value, "close");
	return 0;
}

static int keep(char ret[ANSWER_TEXT_MAX], const char *value)
{
	if (strlen(value) >= ANSWER_TEXT_MAX)
		return -EBADMSG;
	memcpy(ret, value, strlen(value) + 1);
	return 0;
}

static int take_type(struct answer *a, const char *value)
{
	return keep(a->type, value);
}

/* It goes into heads of ours: visible characters only, as the protocol has it. */
static int take_session(struct answer *a, const char *value)
{
	for (const char *p = value; *p; p++) {
		if (*p < 0x21 || *p > 0x7e)
			return -EBADMSG;
	}
	return keep(a->session, value);
}

static const struct {
	const char *name;
	int (*take)(struct answer *a, const char *value);
} fields[] = {
	{ "content-length", take_length },
	{ "transfer-encoding", take_encoding },
	{ "connection", take_connection },
	{ "content-type", take_type },
	{ "mcp-session-id", take_session },
};

static int take_field(struct answer *a, char *line)
{
	char *colon = strchr(line, ':');

	if (!colon)
		return -EBADMSG;
	*colon = '\0';
	const char *value = colon + 1 + strspn(colon + 1, " \t");
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strcasecmp(fields[i].name, line) == 0)
			return fields[i].take(a, value);
	}
	return 0;
}

/* "HTTP/1.1 200 OK" */
static int take_status(struct answer *a, const char *line)
{
	const char *rest = str_after(line, "HTTP/1.1 ");

	if (!rest || !isdigit((unsigned char)rest[0]) || !isdigit((unsigned char)rest[1]) ||
		!isdigit((unsigned char)rest[2]) || (rest[3] != ' ' && rest[3] != '\0'))
		return -EBADMSG;
	a->status = (rest[0] - '0') * 100 + (rest[1] - '0') * 10 + (rest[2] - '0');
	a->keeps_alive = true;
	return a->status >= 200 ? 0 : -EBADMSG;
}

static int parse_head(struct answer *a)
{
	char *line = a->head;
	int r = 0;

	if (memchr(a->head, '\0', a->head_size))
		return -EBADMSG;
	a->head[a->head_size - 2] = '\0'; /* the empty line */
	for (char *end; r == 0 && (end = strstr(line, "\r\n")); line = end + 2) {
		*end = '\0';
		r = line == a->head ? take_status(a, line) : take_field(a, line);
	}
	if (r < 0)
		return r;
	a->has_head = true;
	if (a->status == 204 || a->status == 304)
		a->left = 0;
	a->is_over = !a->is_chunked && a->left == 0;
	return 0;
}

static int read_head(struct answer *a, const char *data, size_t size)
{
	size_t at = 0;

	while (at < size) {
		if (a->head_size == sizeof(a->head) - 1)
			return -EBADMSG;
		char c = a->head[a->head_size++] = data[at++];
		if (c == '\n' && a->head_size >= 4 &&
			memcmp(a->head + a->head_size - 4, "\r\n\r\n", 4) == 0) {
			int r = parse_head(a);
			return r < 0 ? r : (int)at;
		}
	}
	return (int)at;
}

int answer_read(
	struct answer *a, const char *data, size_t size, const char **ret_piece, size_t *ret_size)
{
	if (size > INT_MAX)
		size = INT_MAX;
	*ret_piece = data;
	*ret_size = 0;
	if (a->is_over)
		return -EBADMSG; /* nobody asked for more */
	if (!a->has_head)
		return read_head(a, data, size);
	if (a->is_chunked) {
		int n = chunk_read(&a->chunk, data, size, ret_piece, ret_size);
		a->is_over = n >= 0 && chunk_is_over(&a->chunk);
		return n;
	}
	size_t n = size < a->left ? size : (size_t)a->left;
	a->left -= n;
	a->is_over = a->left == 0;
	*ret_size = n;
	return (int)n;
}
