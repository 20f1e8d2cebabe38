/* The Range header of a request for a file. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum range_verdict {
	RANGE_WHOLE,         /* 200: no header */
	RANGE_PART,          /* 206 */
	RANGE_UNSATISFIABLE, /* 416, with "Content-Range: bytes *" "/size" */
};

/* What `header` (NULL: none) asks of a file of `file_size` bytes: "bytes=a-b", "bytes=a-" or
 * "bytes=-n", the last n. An end behind the file's is cut. Everything else (several ranges, an
 * end before its start, a start behind the file, another unit, garbage) can not be satisfied.
 * The outputs are set for all but RANGE_UNSATISFIABLE. */
enum range_verdict range_parse(
	const char *header, uint64_t file_size, uint64_t *ret_offset, uint64_t *ret_size);

/* How many ranges of bytes `header` lists, right or not; 0 when it is of another unit. */
size_t range_count(const char *header);
