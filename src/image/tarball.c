/* Two readers in a row. The first undoes the compression and hands out one "raw"
 * entry; its bytes are hashed and fed to the second, which knows tar and nothing
 * else. libarchive could do both at once, but then the uncompressed bytes could
 * not be hashed, and the archive could be of any format it ever learned. */
#include "image/tarball.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"
#include "image/budget.h"

#define BLOCK_SIZE (64u << 10)

struct tarball {
	int fd;
	struct budget *budget;
	struct archive *inflate;
	struct archive *tar;
	struct digest *raw;
	struct digest *plain;
	size_t header_left; /* of STREAM_HEADER_MAX, for the entry being opened */
	bool in_header;
	bool has_entry;
	struct err failure; /* a callback's own reason; libarchive has no room for it */
	locale_t plain_locale;
	locale_t previous;
	char raw_block[BLOCK_SIZE];
	char plain_block[BLOCK_SIZE];
};

/* Names are bytes, and must come out as they went in. libarchive would convert
 * them from UTF-8 to the charset of the locale, composing accents on the way; in
 * the C locale it can not, warns, and leaves them alone. */
static void enter_locale(struct tarball *s)
{
	s->plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (s->plain_locale)
		s->previous = uselocale(s->plain_locale);
}

static void leave_locale(struct tarball *s)
{
	if (!s->plain_locale)
		return;
	(void)uselocale(s->previous);
	freelocale(s->plain_locale);
}

/* The one warning that means nothing here. */
static bool is_about_charset(struct archive *a)
{
	const char *why = archive_error_string(a);

	return why && strstr(why, "can't be converted from");
}

/* Tell why `a` failed: our own reason first, then libarchive's. */
static int refuse(const struct tarball *s, struct archive *a, struct err *err)
{
	const char *why = archive_error_string(a);

	if (s->failure.code < 0)
		return err_set(err, s->failure.code, "%s", s->failure.text);
	if (!why)
		why = "damaged";
	return err_set(err, -EBADMSG, "not a good tar archive: %s", quote(why).text);
}

static la_ssize_t read_raw(struct archive *a, void *ctx, const void **ret)
{
	struct tarball *s = ctx;
	ssize_t n;

	(void)a;
	do {
		n = read(s->fd, s->raw_block, sizeof(s->raw_block));
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		(void)err_errno(&s->failure, "read the archive");
		return -1;
	}
	if (budget_take_raw(s->budget, (uint64_t)n, &s->failure) < 0)
		return -1;
	digest_add(s->raw, s->raw_block, (size_t)n);
	*ret = s->raw_block;
	return n;
}

static la_ssize_t read_plain(struct archive *a, void *ctx, const void **ret)
{
	struct tarball *s = ctx;
	la_ssize_t n = archive_read_data(s->inflate, s->plain_block, sizeof(s->plain_block));

	(void)a;
	if (n < 0) {
		if (s->failure.code == 0)
			(void)refuse(s, s->inflate, &s->failure);
		return -1;
	}
	if (budget_take_stream(s->budget, (uint64_t)n, &s->failure) < 0)
		return -1;
	if (s->in_header && (size_t)n > s->header_left) {
		(void)err_set(&s->failure, -EFBIG, "the header of an entry is larger than %u bytes",
			STREAM_HEADER_MAX);
		return -1;
	}
	if (s->in_header)
		s->header_left -= (size_t)n;
	digest_add(s->plain, s->plain_block, (size_t)n);
	*ret = s->plain_block;
	return n;
}

static int open_inflate(struct tarball *s, struct err *err)
{
	struct archive_entry *entry = NULL;

	/* Anything but ARCHIVE_OK would mean an outside program doing it. */
	if (archive_read_support_filter_gzip(s->inflate) != ARCHIVE_OK ||
		archive_read_support_filter_zstd(s->inflate) != ARCHIVE_OK ||
		archive_read_support_format_raw(s->inflate) != ARCHIVE_OK)
		return err_set(err, -ENOTSUP, "libarchive lacks gzip or zstd");
	if (archive_read_open(s->inflate, s, NULL, read_raw, NULL) != ARCHIVE_OK ||
		archive_read_next_header(s->inflate, &entry) != ARCHIVE_OK)
		return refuse(s, s->inflate, err);
	/* One filter and the file below it: compressed twice is no layer. */
	if (archive_filter_count(s->inflate) > 2)
		return err_set(err, -EBADMSG, "the archive is compressed more than once");
	return 0;
}

static int open_tar(struct tarball *s, struct err *err)
{
	if (archive_read_support_format_tar(s->tar) != ARCHIVE_OK)
		return err_set(err, -ENOTSUP, "libarchive lacks tar");
	if (archive_read_open(s->tar, s, NULL, read_plain, NULL) != ARCHIVE_OK)
		return refuse(s, s->tar, err);
	return 0;
}

int tarball_open(int fd, struct budget *budget, struct tarball **ret, struct err *err)
{
	CLEANUP(tarball_freep) struct tarball *s = xnew(struct tarball);

	s->fd = fd;
	s->budget = budget;
	s->raw = digest_new();
	s->plain = digest_new();
	s->inflate = archive_read_new();
	s->tar = archive_read_new();
	if (!s->inflate || !s->tar)
		return err_set(err, -ENOMEM, "no memory for an archive");
	enter_locale(s);
	int r = open_inflate(s, err);
	if (r == 0)
		r = open_tar(s, err);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

void tarball_free(struct tarball *s)
{
	if (!s)
		return;
	(void)archive_read_free(s->tar);
	(void)archive_read_free(s->inflate);
	digest_free(s->raw);
	digest_free(s->plain);
	leave_locale(s);
	free(s);
}

int tarball_next(struct tarball *s, struct archive_entry **ret, struct err *err)
{
	/* First, since leaving the last entry's content is not reading a header. */
	if (s->has_entry && archive_read_data_skip(s->tar) != ARCHIVE_OK)
		return refuse(s, s->tar, err);
	s->in_header = true;
	s->header_left = STREAM_HEADER_MAX;
	int r = archive_read_next_header(s->tar, ret);
	s->in_header = false;
	if (r == ARCHIVE_EOF)
		return 0;
	/* A warning means that something of the entry could not be understood. */
	if (r != ARCHIVE_OK && !(r == ARCHIVE_WARN && is_about_charset(s->tar)))
		return refuse(s, s->tar, err);
	s->has_entry = true;
	return 1;
}

int tarball_data(struct tarball *s, const void **ret, size_t *ret_size, uint64_t *ret_offset,
	struct err *err)
{
	la_int64_t offset = 0;
	int r = archive_read_data_block(s->tar, ret, ret_size, &offset);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK || offset < 0)
		return refuse(s, s->tar, err);
	*ret_offset = (uint64_t)offset;
	return 1;
}

int tarball_end(struct tarball *s, char raw_hex[DIGEST_HEX_SIZE + 1],
	char plain_hex[DIGEST_HEX_SIZE + 1], struct err *err)
{
	const void *block;
	la_ssize_t n;

	while ((n = read_plain(s->tar, s, &block)) > 0)
		;
	if (n == 0) {
		while ((n = read_raw(s->inflate, s, &block)) > 0)
			;
	}
	if (n < 0)
		return refuse(s, s->tar, err);
	digest_end(s->raw, raw_hex);
	digest_end(s->plain, plain_hex);
	return 0;
}
