/* Lines of a stream, one at a time, each below a limit. A longer one is dropped up to its end,
 * and what follows is read as before. Pure: the caller does the reading. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* All zero but for `max`. */
struct line_reader {
	size_t max; /* bytes of a line */
	char *data;
	size_t begin; /* of what was not taken yet */
	size_t end;
	size_t room;
	size_t scanned; /* of it, for the end of a line */
	bool is_skipping;
};

void line_fini(struct line_reader *r);

/* Where to put what is read next, at least `*ret_room` bytes, never 0. */
char *line_room(struct line_reader *r, size_t *ret_room);
void line_added(struct line_reader *r, size_t size);

/* 1 with the next line, without its end ("\n" or "\r\n"), which is good until line_room(); 0
 * when there is none yet; -E2BIG, once for each, for a line that is too long. With `is_last`,
 * what is there is all, and the last line needs no end. */
int line_next(struct line_reader *r, bool is_last, char **ret, size_t *ret_size);
