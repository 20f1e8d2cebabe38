#include "http/multipart.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#define WINDOW        (64u << 10)
#define DELIMITER_MAX (4u + MULTIPART_BOUNDARY_MAX) /* CR LF - - boundary */

_Static_assert(WINDOW >= MULTIPART_HEAD_MAX + DELIMITER_MAX + 4, "a head must fit the window");

/* A window onto the file that moves forward. */
struct window {
	int fd;
	uint64_t left;   /* of the file, behind the window */
	uint64_t offset; /* of the window's first byte in the file */
	size_t at;       /* what was looked at */
	size_t size;
	char data[WINDOW];
};

struct scan {
	struct window w;
	char delimiter[DELIMITER_MAX + 1];
	size_t delimiter_size;
	unsigned n_parts;
	multipart_fn *fn;
	void *ctx;
	struct err *err;
	struct multipart_part part;
};

/* --- parameters of a header: `; name="value"` --- */

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* Take a value off `*text`, with or without quotes; -EBADMSG when it is malformed or does not
 * fit. In quotes a backslash escapes only a quote or itself: browsers send others bare. */
static int take_value(const char **text, char *ret, size_t room)
{
	const char *at = *text;
	bool is_quoted = *at == '"';
	size_t n = 0;

	at += is_quoted;
	while (*at && (is_quoted ? *at != '"' : !strchr("; \t", *at))) {
		if (is_quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\'))
			at++;
		if (n + 1 >= room)
			return -EBADMSG;
		ret[n++] = *at++;
	}
	if (is_quoted && *at++ != '"')
		return -EBADMSG;
	ret[n] = '\0';
	*text = at;
	return 0;
}

/* Find a parameter behind the first ";" of a header's value. 1 when it is there, 0 when not,
 * -EBADMSG when the header is malformed or says it twice. */
static int find_parameter(const char *value, const char *name, char *ret, size_t room)
{
	char other[MULTIPART_NAME_MAX + 1];
	int found = 0;

	for (const char *at = value + strcspn(value, ";"); *at;) {
		at = skip_blanks(at + 1);
		size_t n = strcspn(at, "=; \t");
		bool is_it = n == strlen(name) && strncasecmp(at, name, n) == 0;
		at += n;
		if (n == 0 && *at == '\0')
			break; /* a ";" at the end does no harm */
		if (*at++ != '=' || n == 0)
			return -EBADMSG;
		int r = is_it ? take_value(&at, ret, room) : take_value(&at, other, sizeof(other));
		at = skip_blanks(at);
		if (r < 0 || (*at && *at != ';') || (is_it && found++))
			return -EBADMSG;
	}
	return found;
}

static bool has_type(const char *value, const char *type)
{
	size_t n = strcspn(value, "; \t");

	return n == strlen(type) && strncasecmp(value, type, n) == 0;
}

static bool is_boundary(const char *text)
{
	static const char marks[] = "'()+_,-./:=? ";
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (!strchr(marks, text[i]) && !(text[i] >= '0' && text[i] <= '9') &&
			!((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z'))
			return false;
	return n > 0 && text[n - 1] != ' ';
}

int multipart_boundary(
	const char *content_type, char ret[MULTIPART_BOUNDARY_MAX + 1], struct err *err)
{
	char boundary[MULTIPART_BOUNDARY_MAX + 1];

	if (!content_type || !has_type(content_type, "multipart/form-data"))
		return err_set(err, -EINVAL, "the Content-Type must be multipart/form-data");
	int r = find_parameter(content_type, "boundary", boundary, sizeof(boundary));
	if (r == 0)
		return err_set(err, -EINVAL, "the Content-Type has no boundary");
	if (r < 0 || !is_boundary(boundary))
		return err_set(err, -EINVAL, "the boundary in the Content-Type is malformed");
	memcpy(ret, boundary, strlen(boundary) + 1);
	return 0;
}

/* --- the window --- */

/* Have `want` bytes from `at` on, or all that are left. */
static int window_fill(struct window *w, size_t want)
{
	if (w->size - w->at >= want)
		return 0;
	memmove(w->data, w->data + w->at, w->size - w->at);
	w->offset += w->at;
	w->size -= w->at;
	w->at = 0;
	while (w->left > 0 && w->size < WINDOW) {
		size_t n = WINDOW - w->size < w->left ? WINDOW - w->size : (size_t)w->left;
		ssize_t r = pread(w->fd, w->data + w->size, n, (off_t)(w->offset + w->size));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -EIO;
		w->size += (size_t)r;
		w->left -= (uint64_t)r;
	}
	return 0;
}

static bool window_has(const struct window *w, const char *text, size_t size)
{
	return w->size - w->at >= size && memcmp(w->data + w->at, text, size) == 0;
}

/* --- one part --- */

static int bad(struct scan *s, const char *what)
{
	return err_set(s->err, -EBADMSG, "the multipart body is malformed: %s", what);
}

static int on_disposition(struct scan *s, const char *value)
{
	struct multipart_part *p = &s->part;

	if (!has_type(value, "form-data") || p->name[0])
		return bad(s, "a part is no form-data");
	if (find_parameter(value, "name", p->name, sizeof(p->name)) != 1 || p->name[0] == '\0')
		return bad(s, "a part has no name, or one that is too long");
	int r = find_parameter(value, "filename", p->filename, sizeof(p->filename));
	p->has_filename = r == 1;
	return r < 0 ? bad(s, "the name of a file is malformed or too long") : 0;
}

static int on_type(struct scan *s, const char *value)
{
	if (strlen(value) > MULTIPART_TYPE_MAX || s->part.type[0])
		return bad(s, "the type of a part is too long, or comes twice");
	memcpy(s->part.type, value, strlen(value) + 1);
	return 0;
}

static const struct {
	const char *name;
	int (*handle)(struct scan *s, const char *value);
} headers[] = {
	{ "content-disposition", on_disposition },
	{ "content-type", on_type },
};

static int parse_header(struct scan *s, char *line)
{
	char *colon = strchr(line, ':');

	if (!colon || colon == line || line[0] == ' ' || line[0] == '\t')
		return bad(s, "a header of a part has no name");
	*colon = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (strcasecmp(line, headers[i].name) == 0)
			return headers[i].handle(s, skip_blanks(colon + 1));
	return 0;
}

/* Each line of a head, which ends with CR LF CR LF. */
static int parse_head(struct scan *s, char *text, size_t size)
{
	char *end = text + size - 2;

	s->part.name[0] = s->part.filename[0] = s->part.type[0] = '\0';
	s->part.has_filename = false;
	for (char *line = text; line < end;) {
		char *cr = memchr(line, '\r', (size_t)(end - line));
		if (!cr || cr[1] != '\n' || memchr(line, '\0', (size_t)(cr - line)) ||
			memchr(line, '\n', (size_t)(cr - line)))
			return bad(s, "a line of a part's headers ends without CR LF");
		*cr = '\0';
		int r = parse_header(s, line);
		if (r < 0)
			return r;
		line = cr + 2;
	}
	return s->part.name[0] ? 0 : bad(s, "a part has no Content-Disposition");
}

static int read_head(struct scan *s)
{
	struct window *w = &s->w;
	int r = window_fill(w, MULTIPART_HEAD_MAX);

	if (r < 0)
		return err_set(s->err, r, "read the body: %s", strerror(-r));
	size_t room = w->size - w->at < MULTIPART_HEAD_MAX ? w->size - w->at : MULTIPART_HEAD_MAX;
	char *head = w->data + w->at;
	char *end = memmem(head, room, "\r\n\r\n", 4);
	if (!end)
		return room < MULTIPART_HEAD_MAX
			       ? bad(s, "it ends within the headers of a part")
			       : err_set(s->err, -E2BIG,
					 "the headers of a part are larger than %u bytes",
					 MULTIPART_HEAD_MAX);
	size_t size = (size_t)(end - head) + 4;
	r = parse_head(s, head, size);
	w->at += size;
	return r;
}

/* Stand behind the next delimiter; the part's size is what was before it. */
static int skip_content(struct scan *s)
{
	struct window *w = &s->w;

	s->part.offset = w->offset + w->at;
	for (;;) {
		int r = window_fill(w, s->delimiter_size + 4);
		if (r < 0)
			return err_set(s->err, r, "read the body: %s", strerror(-r));
		const char *found =
			memmem(w->data + w->at, w->size - w->at, s->delimiter, s->delimiter_size);
		if (found) {
			size_t at = (size_t)(found - w->data);
			s->part.size = w->offset + at - s->part.offset;
			w->at = at + s->delimiter_size;
			return 0;
		}
		if (w->left == 0)
			return bad(s, "it ends within a part");
		w->at = w->size - s->delimiter_size; /* it may have begun */
	}
}

/* Behind a delimiter: 1 for another part, 0 for the end, or an error. */
static int after_delimiter(struct scan *s)
{
	int r = window_fill(&s->w, 4);

	if (r < 0)
		return err_set(s->err, r, "read the body: %s", strerror(-r));
	if (window_has(&s->w, "\r\n", 2)) {
		s->w.at += 2;
		return 1;
	}
	if (!window_has(&s->w, "--", 2))
		return bad(s, "something follows a boundary");
	s->w.at += 2;
	if (s->w.at == s->w.size && s->w.left == 0)
		return 0;
	return window_has(&s->w, "\r\n", 2) && s->w.size - s->w.at == 2 && s->w.left == 0
		       ? 0
		       : bad(s, "something follows its end");
}

static int next_part(struct scan *s)
{
	if (s->n_parts++ == MULTIPART_PARTS_MAX)
		return err_set(
			s->err, -E2BIG, "the body has more than %u parts", MULTIPART_PARTS_MAX);
	int r = read_head(s);
	if (r == 0)
		r = skip_content(s);
	return r < 0 ? r : s->fn(s->ctx, &s->part);
}

int multipart_scan(
	int fd, uint64_t size, const char *boundary, multipart_fn *fn, void *ctx, struct err *err)
{
	AUTO_FREE struct scan *s = xnew(struct scan);

	s->w.fd = fd;
	s->w.left = size;
	s->fn = fn;
	s->ctx = ctx;
	s->err = err;
	(void)stpcpy(stpcpy(s->delimiter, "\r\n--"), boundary);
	s->delimiter_size = strlen(s->delimiter);
	int r = window_fill(&s->w, s->delimiter_size + 4);
	if (r < 0)
		return err_set(err, r, "read the body: %s", strerror(-r));
	/* The first delimiter has no line before it. */
	if (!window_has(&s->w, s->delimiter + 2, s->delimiter_size - 2))
		return bad(s, "it does not begin with its boundary");
	s->w.at = s->delimiter_size - 2;
	while ((r = after_delimiter(s)) > 0) {
		r = next_part(s);
		if (r < 0)
			return r;
	}
	return r;
}
