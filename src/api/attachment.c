#include "api/attachment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/download.h"
#include "api/reply.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "core/mime.h"
#include "core/problem.h"
#include "http/http.h"
#include "http/range.h"

/* Smaller ones are not worth compressing. */
#define GZIP_MIN_BYTES 1024u

static void set_headers(struct exchange *x, const struct attachment *a, bool is_compressed)
{
	AUTO_FREE char *name = xcalloc(1, DOWNLOAD_DISPOSITION_SIZE(strlen(a->path)));
	char tag[DOWNLOAD_ETAG_SIZE];

	download_etag(a->sha256, is_compressed, tag);
	exchange_set_header(x, "ETag", tag);
	exchange_set_header(x, "Cache-Control", "private");
	if (mime_is_text(a->mime))
		exchange_set_header(x, "Vary", "Accept-Encoding");
	download_disposition(a->path, name);
	exchange_set_header(x, "Content-Disposition", name);
	exchange_set_header(x, "X-Content-Type-Options", "nosniff");
	/* A guest wrote the file. Where a browser shows it all the same, as HTML, SVG or XML, it
	 * has an origin of its own, runs no script and loads nothing. */
	exchange_set_header(x, "Content-Security-Policy", "sandbox; default-src 'none'");
	exchange_set_header(x, "Accept-Ranges", "bytes");
}

static void set_range(struct exchange *x, const char *part, uint64_t size)
{
	char text[96];

	(void)snprintf(text, sizeof(text), "bytes %s/%" PRIu64, part, size);
	exchange_set_header(x, "Content-Range", text);
}

void attachment_set_range(struct exchange *x, uint64_t offset, uint64_t size, uint64_t total)
{
	char part[48];

	(void)snprintf(part, sizeof(part), "%" PRIu64 "-%" PRIu64, offset, offset + size - 1);
	set_range(x, part, total);
}

static void send_part(
	struct exchange *x, const struct attachment *a, uint64_t offset, uint64_t size, int fd)
{
	set_headers(x, a, false);
	attachment_set_range(x, offset, size, a->size);
	exchange_reply_file(x, 206, a->mime, fd, a->offset + offset, size);
}

/* All of it, or that it is still the same. What begins in the middle of a file is not
 * compressed: the server does that for whole files only. */
static void send_whole(struct exchange *x, const struct attachment *a, int *fd)
{
	bool is_compressed = a->offset == 0 && a->size > GZIP_MIN_BYTES && mime_is_text(a->mime) &&
			     download_takes_gzip(exchange_header(x, "accept-encoding"));

	set_headers(x, a, is_compressed);
	if (download_is_known(exchange_header(x, "if-none-match"), a->sha256))
		exchange_reply_bytes(x, 304, NULL, NULL, 0);
	else if (is_compressed)
		exchange_reply_gzip(x, 200, a->mime, take_fd(fd), a->size);
	else
		exchange_reply_file(x, 200, a->mime, take_fd(fd), a->offset, a->size);
}

/* A request for several ranges is well formed; the answer says that only one is supported. */
void attachment_refuse_range(struct exchange *x, const char *range, uint64_t total)
{
	size_t n = range_count(range);
	struct problem p = { 0 };

	set_range(x, "*", total);
	if (n > 1) {
		(void)problem_set(&p, "invalid_request", "Multi-range not supported");
		problem_add(&p, "ranges", json_integer((json_int_t)n));
		p.place = PROBLEM_IN_HEADER;
	} else {
		(void)problem_set(&p, "invalid_range",
			"the range is not one of bytes within this file of %" PRIu64, total);
	}
	p.status = 416;
	reply_problem(x, &p);
	problem_fini(&p);
}

/* A Range does not count for who has the file already, or has another one. */
void attachment_reply(struct exchange *x, const struct attachment *a)
{
	AUTO_FD fd = a->fd;
	const char *range = exchange_header(x, "range");
	uint64_t offset = 0;
	uint64_t size = 0;

	if (!download_may_resume(exchange_header(x, "if-range"), a->sha256) ||
		download_is_known(exchange_header(x, "if-none-match"), a->sha256))
		range = NULL;
	enum range_verdict verdict = range_parse(range, a->size, &offset, &size);
	if (verdict == RANGE_WHOLE) {
		send_whole(x, a, &fd);
	} else if (verdict == RANGE_PART) {
		send_part(x, a, offset, size, take_fd(&fd));
	} else {
		attachment_refuse_range(x, range, a->size);
	}
}
