/* A line with a Content-Type, then a body: parts lie within the file, in order, apart. */
#include "http/multipart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t size; /* of the body */
	uint64_t end;  /* of the last part */
};

static int on_part(void *ctx, const struct multipart_part *p)
{
	struct seen *s = ctx;

	if (p->offset < s->end || p->size > s->size || p->offset > s->size - p->size || !p->name[0])
		abort();
	s->end = p->offset + p->size;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	const uint8_t *line = memchr(data, '\n', size);
	char boundary[MULTIPART_BOUNDARY_MAX + 1] = "XX";
	struct err err = { 0 };

	if (!line)
		return 0;
	char *header = strndup((const char *)data, (size_t)(line - data));
	(void)multipart_boundary(header, boundary, &err);
	free(header);
	struct seen seen = { .size = size - (size_t)(line + 1 - data) };
	if (fd < 0)
		fd = memfd_create("body", MFD_CLOEXEC);
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
		fd_write_full(fd, line + 1, (size_t)seen.size) < 0)
		abort();
	(void)multipart_scan(fd, seen.size, boundary, on_part, &seen, &err);
	return 0;
}
