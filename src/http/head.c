#include "http/head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Fields which mean nothing, or too much, when they come twice. */
static const char *const single[] = { "authorization", "content-length", "content-type", "expect",
	"host", "idempotency-key", "origin", "sec-websocket-key", "sec-websocket-version",
	"transfer-encoding", "upgrade", "x-api-key" };

static const char token_marks[] = "!#$%&'*+-.^_`|~";

static bool is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr(token_marks, c));
}

static int fault(struct head_fault *ret, int status, const char *code, const char *message)
{
	*ret = (struct head_fault){ status, code, message };
	return -EBADMSG;
}

static int bad(struct head_fault *ret, const char *message)
{
	return fault(ret, 400, "bad_request", message);
}

size_t head_find_end(const char *data, size_t size, size_t *scanned)
{
	size_t from = *scanned > 3 ? *scanned - 3 : 0;
	const char *end = size > from ? memmem(data + from, size - from, "\r\n\r\n", 4) : NULL;

	*scanned = size;
	return end ? (size_t)(end - data) + 4 : 0;
}

/* Take the next line off `*text`, without its CR LF. A CR or LF alone, or a NUL, is none. */
static char *next_line(char **text, const char *end)
{
	char *line = *text;
	char *lf = memchr(line, '\n', (size_t)(end - line));

	if (!lf || lf == line || lf[-1] != '\r')
		return NULL;
	lf[-1] = '\0';
	*text = lf + 1;
	return strlen(line) == (size_t)(lf - 1 - line) && !strchr(line, '\r') ? line : NULL;
}

static bool is_graphic(const char *text)
{
	for (; *text; text++)
		if (*text < 0x21 || *text > 0x7e)
			return false;
	return true;
}

/* "http://host/path" is what a proxy is told; the path is all we look at. */
static char *path_of(char *target)
{
	static const char *const schemes[] = { "http://", "https://" };

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strncasecmp(target, schemes[i], strlen(schemes[i])) == 0)
			return strchr(target + strlen(schemes[i]), '/');
	return *target == '/' ? target : NULL;
}

static int parse_target(char *target, struct head *ret, struct head_fault *ret_fault)
{
	char *path = path_of(target);

	if (strlen(target) > HEAD_TARGET_MAX)
		return fault(ret_fault, 414, "uri_too_long", "the request's target is too long");
	if (!path || !is_graphic(target))
		return bad(ret_fault, "the request's target is not a path");
	path[strcspn(path, "#")] = '\0';
	ret->query = strchr(path, '?');
	if (ret->query)
		*ret->query++ = '\0';
	ret->path = path;
	ret->path_size = strlen(path);
	return 0;
}

static int parse_version(const char *version, struct head *ret, struct head_fault *ret_fault)
{
	if (!streq(version, "HTTP/1.1") && !streq(version, "HTTP/1.0"))
		return str_after(version, "HTTP/")
			       ? fault(ret_fault, 505, "version_not_supported",
					 "only HTTP/1.1 and HTTP/1.0 are spoken here")
			       : bad(ret_fault, "the request line is malformed");
	ret->is_old = version[7] == '0';
	return 0;
}

static int parse_request_line(char *line, struct head *ret, struct head_fault *ret_fault)
{
	char *target = line ? strchr(line, ' ') : NULL;
	char *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || target == line || target - line > 32)
		return bad(ret_fault, "the request line is malformed");
	*target++ = '\0';
	*version++ = '\0';
	for (const char *c = line; *c; c++)
		if (!is_token_char(*c))
			return bad(ret_fault, "the request's method is malformed");
	ret->method = line;
	int r = parse_version(version, ret, ret_fault);
	return r < 0 ? r : parse_target(target, ret, ret_fault);
}

static char *trim(char *text)
{
	text += strspn(text, " \t");
	size_t n = strlen(text);
	while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		text[--n] = '\0';
	return text;
}

static int parse_field(char *line, struct head *ret, struct head_fault *ret_fault)
{
	char *colon = line ? strchr(line, ':') : NULL;

	if (!colon || colon == line)
		return bad(ret_fault, "a header line is malformed");
	*colon = '\0';
	for (char *c = line; *c; c++) {
		if (!is_token_char(*c))
			return bad(ret_fault, "the name of a header is malformed");
		if (*c >= 'A' && *c <= 'Z')
			*c |= 0x20;
	}
	for (const char *c = colon + 1; *c; c++)
		if ((unsigned char)*c < 0x20 ? *c != '\t' : *c == 0x7f)
			return bad(ret_fault, "a header holds a control character");
	if (ret->n_fields == HEAD_FIELDS_MAX)
		return fault(
			ret_fault, 431, "headers_too_large", "the request has too many headers");
	ret->fields[ret->n_fields++] = (struct head_field){ line, trim(colon + 1) };
	return 0;
}

const char *head_find(const struct head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (streq(h->fields[i].name, name))
			return h->fields[i].value;
	return NULL;
}

bool head_has_word(const char *list, const char *word)
{
	size_t size = strlen(word);

	for (const char *at = list; at && *at;) {
		at += strspn(at, " \t,");
		size_t n = strcspn(at, " \t,;");
		if (n == size && strncasecmp(at, word, n) == 0)
			return true;
		at += strcspn(at, ",");
	}
	return false;
}

static int check_single(const struct head *h, struct head_fault *ret_fault)
{
	for (size_t i = 0; i < ARRAY_SIZE(single); i++) {
		unsigned n = 0;

		for (size_t k = 0; k < h->n_fields; k++)
			n += streq(h->fields[k].name, single[i]);
		if (n > 1)
			return bad(ret_fault, "a header that must come once came twice");
	}
	if (!h->is_old && !head_find(h, "host"))
		return bad(ret_fault, "the Host header is missing");
	return 0;
}

static int find_length(struct head *h, struct head_fault *ret_fault)
{
	const char *length = head_find(h, "content-length");
	const char *coding = head_find(h, "transfer-encoding");

	if (coding && (length || h->is_old))
		return bad(ret_fault, "the length of the body is ambiguous");
	if (coding && strcasecmp(coding, "chunked") != 0)
		return fault(ret_fault, 501, "not_implemented",
			"no Transfer-Encoding but chunked is understood");
	h->is_chunked = coding != NULL;
	if (length && str_parse_u64(length, INT64_MAX, &h->length) < 0)
		return bad(ret_fault, "the Content-Length is not a number");
	return 0;
}

static int find_wishes(struct head *h, struct head_fault *ret_fault)
{
	const char *connection = head_find(h, "connection");
	const char *expect = head_find(h, "expect");
	const char *upgrade = head_find(h, "upgrade");

	if (expect && strcasecmp(expect, "100-continue") != 0)
		return fault(ret_fault, 417, "expectation_failed",
			"no expectation but 100-continue can be met");
	h->keeps_alive = h->is_old ? head_has_word(connection, "keep-alive")
				   : !head_has_word(connection, "close");
	h->expects_continue = expect && !h->is_old && (h->is_chunked || h->length > 0);
	h->wants_websocket = head_has_word(upgrade, "websocket") &&
			     head_has_word(connection, "upgrade") && !h->is_old;
	return 0;
}

int head_parse(char *text, size_t size, struct head *ret, struct head_fault *ret_fault)
{
	const char *end = text + size - 2; /* before the empty line */
	static int (*const checks[])(
		struct head *, struct head_fault *) = { find_length, find_wishes };

	ret->n_fields = 0;
	ret->length = 0;
	int r = parse_request_line(next_line(&text, end), ret, ret_fault);
	while (r == 0 && text < end)
		r = parse_field(next_line(&text, end), ret, ret_fault);
	if (r == 0)
		r = check_single(ret, ret_fault);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(checks); i++)
		r = checks[i](ret, ret_fault);
	return r;
}
