#include "bridge/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (64u << 10) /* bytes read at once */

void line_fini(struct line_reader *r)
{
	free(r->data);
	*r = (struct line_reader){ .max = r->max };
}

char *line_room(struct line_reader *r, size_t *ret_room)
{
	if (r->begin > 0) {
		memmove(r->data, r->data + r->begin, r->end - r->begin);
		r->end -= r->begin;
		r->begin = 0;
	}
	if (r->room - r->end < PIECE) {
		size_t room = r->room * 2 > r->end + PIECE ? r->room * 2 : r->end + PIECE;
		char *data = realloc(r->data, room);

		if (!data)
			abort();
		r->data = data;
		r->room = room;
	}
	*ret_room = r->room - r->end;
	return r->data + r->end;
}

void line_added(struct line_reader *r, size_t size)
{
	r->end += size;
}

/* Drop what is there of a line that is too long. */
static int skip(struct line_reader *r)
{
	bool was_skipping = r->is_skipping;

	r->is_skipping = true;
	r->begin = r->end = r->scanned = 0;
	return was_skipping ? 0 : -E2BIG;
}

static int take(struct line_reader *r, size_t size, size_t whole, char **ret, size_t *ret_size)
{
	char *text = r->data + r->begin;
	bool is_tail = r->is_skipping;

	r->begin += whole;
	r->scanned = 0;
	r->is_skipping = false;
	if (is_tail)
		return line_next(r, false, ret, ret_size);
	if (size > r->max)
		return -E2BIG;
	if (size > 0 && text[size - 1] == '\r')
		size--;
	*ret = text;
	*ret_size = size;
	return 1;
}

int line_next(struct line_reader *r, bool is_last, char **ret, size_t *ret_size)
{
	size_t size = r->end - r->begin;

	if (size == 0)
		return 0; /* there may be no room yet */
	const char *text = r->data + r->begin;
	const char *end =
		size > r->scanned ? memchr(text + r->scanned, '\n', size - r->scanned) : NULL;

	if (end)
		return take(r, (size_t)(end - text), (size_t)(end - text) + 1, ret, ret_size);
	if (is_last && size > 0)
		return take(r, size, size, ret, ret_size);
	r->scanned = size;
	return size > r->max ? skip(r) : 0;
}
