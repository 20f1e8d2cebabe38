/* Lines, cut in any way: none is longer than the limit, and none holds the end of one. */
#include "bridge/line.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_all(struct line_reader *r, bool is_last)
{
	char *line = NULL;
	size_t n = 0;
	int got;

	while ((got = line_next(r, is_last, &line, &n)) != 0) {
		if (got > 0 && (n > r->max || memchr(line, '\n', n)))
			abort();
		if (got < 0 && got != -E2BIG)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct line_reader r = { .max = 32 };
	size_t step = size > 0 ? (size_t)data[0] % 64 + 1 : 1;

	for (size_t at = 1; at < size; at += step) {
		size_t room = 0;
		size_t n = size - at < step ? size - at : step;

		memcpy(line_room(&r, &room), data + at, n);
		line_added(&r, n);
		take_all(&r, false);
		if (r.end - r.begin > r.max + step)
			abort(); /* nothing grows beyond the limit and a piece */
	}
	take_all(&r, true);
	line_fini(&r);
	return 0;
}
