#include "bridge/sse.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define RETRY_MAX_MS 3600000u

void sse_fini(struct sse *s)
{
	free(s->line);
	free(s->data);
	*s = (struct sse){ 0 };
}

static int append(char **buf, size_t *used, size_t *room, size_t max, const char *data, size_t size)
{
	if (size > max || *used > max - size)
		return -E2BIG;
	if (*used + size + 1 > *room) {
		size_t next = (*used + size + 1) * 2;
		char *more = realloc(*buf, next);

		if (!more)
			return -E2BIG;
		*buf = more;
		*room = next;
	}
	memcpy(*buf + *used, data, size);
	*used += size;
	(*buf)[*used] = '\0';
	return 0;
}

static int take_data(struct sse *s, const char *value, size_t size)
{
	int r = s->has_data ? append(&s->data, &s->data_size, &s->data_room, SSE_EVENT_MAX, "\n", 1)
			    : 0;

	s->has_data = true;
	return r < 0 ? r
		     : append(&s->data, &s->data_size, &s->data_room, SSE_EVENT_MAX, value, size);
}

static int take_id(struct sse *s, const char *value, size_t size)
{
	if (size <= SSE_ID_MAX && !memchr(value, '\0', size)) {
		memcpy(s->id, value, size);
		s->id[size] = '\0';
	}
	return 0;
}

static int take_retry(struct sse *s, const char *value, size_t size)
{
	uint64_t ms = 0;

	if (strlen(value) == size && str_parse_u64(value, RETRY_MAX_MS, &ms) == 0) {
		s->retry_ms = ms;
		s->has_retry = true;
	}
	return 0;
}

static int take_type(struct sse *s, const char *value, size_t size)
{
	(void)size;
	s->is_message = value[0] == '\0' || streq(value, "message");
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct sse *s, const char *value, size_t size);
} fields[] = {
	{ "data", take_data },
	{ "id", take_id },
	{ "retry", take_retry },
	{ "event", take_type },
};

/* "name: value", "name:value" or "name"; ":" begins a comment, which has no name. */
static int take_line(struct sse *s)
{
	const char *colon = memchr(s->line, ':', s->line_size);
	size_t name = colon ? (size_t)(colon - s->line) : s->line_size;
	size_t from = colon ? name + 1 : name;

	if (from < s->line_size && s->line[from] == ' ')
		from++;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strlen(fields[i].name) == name && memcmp(fields[i].name, s->line, name) == 0)
			return fields[i].take(s, s->line + from, s->line_size - from);
	}
	return 0;
}

static void begin_event(struct sse *s)
{
	s->data_size = 0;
	s->has_data = s->is_over = false;
	s->is_message = s->is_begun = true;
}

/* 1 when it ended an event. */
static int end_line(struct sse *s)
{
	if (s->line_size == 0) {
		s->is_over = true;
		return s->has_data ? 1 : 0;
	}
	int r = take_line(s);
	s->line_size = 0;
	return r;
}

static size_t find_end(const char *data, size_t size)
{
	const char *lf = memchr(data, '\n', size);
	size_t n = lf ? (size_t)(lf - data) : size;
	const char *cr = memchr(data, '\r', n);

	return cr ? (size_t)(cr - data) : n;
}

int sse_feed(struct sse *s, const char *data, size_t size, bool *ret_event)
{
	size_t at = 0;

	if (size > INT_MAX)
		size = INT_MAX;
	*ret_event = false;
	if (s->is_over || !s->is_begun)
		begin_event(s);
	while (at < size) {
		if (s->has_cr && data[at] == '\n') {
			s->has_cr = false;
			at++;
			continue;
		}
		size_t n = find_end(data + at, size - at);
		int r = append(&s->line, &s->line_size, &s->line_room, SSE_LINE_MAX, data + at, n);
		if (r < 0)
			return r;
		at += n;
		s->has_cr = at < size && data[at] == '\r';
		if (at == size)
			break;
		at++;
		if (s->is_over)
			begin_event(s);
		r = end_line(s);
		if (r < 0)
			return r;
		if (r > 0) {
			*ret_event = true;
			break;
		}
	}
	return (int)at;
}
