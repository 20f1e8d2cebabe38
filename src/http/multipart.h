/* A multipart/form-data body that was spooled to a file: where its parts are, without holding
 * any of them. Strict: what is malformed is refused as a whole. Constant memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define MULTIPART_BOUNDARY_MAX 70u        /* bytes, as RFC 2046 has it */
#define MULTIPART_PARTS_MAX    2000u      /* of one body */
#define MULTIPART_HEAD_MAX     (8u << 10) /* bytes of one part's headers */
#define MULTIPART_NAME_MAX     1024u      /* bytes of a name or a file's name */
#define MULTIPART_TYPE_MAX     256u

struct multipart_part {
	char name[MULTIPART_NAME_MAX + 1];
	char filename[MULTIPART_NAME_MAX +
		      1]; /* "" when it has none; as it was sent: may hold "/" */
	bool has_filename;
	char type[MULTIPART_TYPE_MAX + 1]; /* "" when it has none */
	uint64_t offset;                   /* of its content in the file */
	uint64_t size;
};

/* Called for each part, in order, with a part that is gone afterwards. A negative errno ends
 * the scan with it. */
typedef int multipart_fn(void *ctx, const struct multipart_part *part);

/* The boundary in a Content-Type header (NULL: none). -EINVAL with a sentence when it is not
 * multipart/form-data, or has no boundary, or none that is allowed. */
int multipart_boundary(
	const char *content_type, char ret[MULTIPART_BOUNDARY_MAX + 1], struct err *err);

/* Scan the first `size` bytes of `fd`. 0, -EBADMSG with a sentence for a malformed body (parts
 * may have been told by then), -E2BIG for too many parts or headers, what read() says, or what
 * `fn` returned. */
int multipart_scan(
	int fd, uint64_t size, const char *boundary, multipart_fn *fn, void *ctx, struct err *err);
