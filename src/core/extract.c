/* Tar: two readers in a row, the first of which only undoes the compression, so that what a
 * header makes the second one read can be counted; libarchive keeps headers and sparse maps in
 * memory. Zip: one reader that seeks, since only the directory at the end tells the truth
 * about names, sizes and kinds; that directory is kept in memory too, and counted as a header. */
#include "core/extract.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"

#define BLOCK_SIZE     (64u << 10)
#define TAR_HEADER_MAX (2u << 20)
#define ZIP_HEADER_MAX (16u << 20)
#define BYTES_MAX      (UINT64_C(1) << 50) /* so that sums do not wrap */

struct extract {
	struct extract_source source;
	uint64_t position;       /* in the source */
	uint64_t n_plain;        /* bytes that came out of the decompression of a tar */
	uint64_t n_out;          /* bytes of members, holes included */
	struct archive *inflate; /* of a tar only */
	struct archive *members;
	size_t header_left;
	bool in_header;
	bool has_ended;
	struct err failure; /* a callback's own reason; libarchive has no room for it */
	locale_t locale;
	locale_t previous;
	/* the member being read */
	uint64_t at;       /* how much of it was given */
	uint64_t block_at; /* where `block` belongs; what is before it is a hole */
	const char *block;
	size_t block_size;
	uint64_t declared; /* its size, as the header of a tar says */
	bool is_over;
	char raw[BLOCK_SIZE];
	char plain[BLOCK_SIZE];
};

static const char zeros[BLOCK_SIZE];

/* Names of a tar are bytes and come out as they went in: in the C locale libarchive does not
 * convert them. Those of a zip it would drop there; in an UTF-8 locale they stay, but that an
 * accent which stands alone is joined with its letter. */
static void enter_locale(struct extract *x)
{
	const char *name = x->source.format == EXTRACT_ZIP ? "C.UTF-8" : "C";

	x->locale = newlocale(LC_ALL_MASK, name, (locale_t)0);
	if (x->locale)
		x->previous = uselocale(x->locale);
}

static void leave_locale(struct extract *x)
{
	if (!x->locale)
		return;
	(void)uselocale(x->previous);
	freelocale(x->locale);
}

/* Our own reason first, then libarchive's, which may quote names: without control characters. */
static int refuse(const struct extract *x, struct archive *a, struct err *err)
{
	const char *why = archive_error_string(a);
	char text[128];

	if (x->failure.code < 0)
		return err_set(err, x->failure.code, "%s", x->failure.text);
	if (archive_errno(a) == ENOMEM)
		return err_set(err, -ENOMEM, "no memory for an archive");
	(void)snprintf(text, sizeof(text), "%s", why ? why : "damaged");
	for (char *p = text; *p; p++)
		*p = *p >= ' ' && *p < 0x7f ? *p : '?';
	return err_set(err, -EBADMSG, "not a good archive: %s", text);
}

/* `n` more bytes came out. */
static int check_growth(
	const struct extract *x, uint64_t before, uint64_t n, uint64_t allowance, struct err *err)
{
	const struct extract_source *s = &x->source;
	uint64_t total = before + n;

	if (total < before || total > s->max_bytes + allowance)
		return err_set(err, -EFBIG, "the archive unpacks to more than %llu bytes",
			(unsigned long long)s->max_bytes);
	if (s->max_ratio > 0 && total > EXTRACT_RATIO_FREE && total / s->max_ratio > s->size)
		return err_set(err, -E2BIG, "the archive unpacks to more than %llu times its size",
			(unsigned long long)s->max_ratio);
	return 0;
}

static int count_header(struct extract *x, size_t n)
{
	if (!x->in_header)
		return 0;
	if (n > x->header_left)
		return err_set(&x->failure, -EBADMSG, "the header of a member is too large");
	x->header_left -= n;
	return 0;
}

static la_ssize_t read_raw(struct archive *a, void *ctx, const void **ret)
{
	struct extract *x = ctx;
	uint64_t left = x->source.size - x->position;
	size_t want = left < sizeof(x->raw) ? (size_t)left : sizeof(x->raw);
	ssize_t n;

	(void)a;
	do {
		n = pread(x->source.fd, x->raw, want, (off_t)(x->source.offset + x->position));
	} while (n < 0 && errno == EINTR);
	if (n < 0 || (n == 0 && want > 0)) {
		errno = n < 0 ? errno : EIO;
		(void)err_errno(&x->failure, "read the archive");
		return -1;
	}
	if (!x->inflate && count_header(x, (size_t)n) < 0)
		return -1;
	x->position += (uint64_t)n;
	*ret = x->raw;
	return n;
}

static la_int64_t seek_raw(struct archive *a, void *ctx, la_int64_t offset, int whence)
{
	struct extract *x = ctx;
	uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? x->position : x->source.size;

	(void)a;
	/* The size of a spool is far from where this could wrap. */
	if (offset < -(la_int64_t)base || offset > (la_int64_t)(x->source.size - base))
		return ARCHIVE_FATAL;
	x->position = base + (uint64_t)offset;
	return (la_int64_t)x->position;
}

static la_int64_t skip_raw(struct archive *a, void *ctx, la_int64_t request)
{
	struct extract *x = ctx;
	uint64_t left = x->source.size - x->position;
	uint64_t n = request < 0 ? 0 : (uint64_t)request;

	(void)a;
	n = n < left ? n : left;
	x->position += n;
	return (la_int64_t)n;
}

static la_ssize_t read_plain(struct archive *a, void *ctx, const void **ret)
{
	struct extract *x = ctx;
	la_ssize_t n = archive_read_data(x->inflate, x->plain, sizeof(x->plain));

	(void)a;
	if (n < 0) {
		(void)refuse(x, x->inflate, &x->failure);
		return -1;
	}
	/* Headers and padding are no one's bytes: some are free. */
	if (check_growth(x, x->n_plain, (uint64_t)n, x->source.max_bytes + EXTRACT_RATIO_FREE,
		    &x->failure) < 0 ||
		count_header(x, (size_t)n) < 0)
		return -1;
	x->n_plain += (uint64_t)n;
	*ret = x->plain;
	return n;
}

static int open_inflate(struct extract *x, struct err *err)
{
	struct archive *a = x->inflate;
	struct archive_entry *entry = NULL;

	/* Anything but ARCHIVE_OK would mean an outside program doing it. */
	if (archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
		archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
		archive_read_support_filter_xz(a) != ARCHIVE_OK ||
		archive_read_support_filter_zstd(a) != ARCHIVE_OK ||
		archive_read_support_format_raw(a) != ARCHIVE_OK)
		return err_set(err, -ENOTSUP, "libarchive lacks gzip, bzip2, xz or zstd");
	if (archive_read_open2(a, x, NULL, read_raw, skip_raw, NULL) != ARCHIVE_OK ||
		archive_read_next_header(a, &entry) != ARCHIVE_OK)
		return refuse(x, a, err);
	if (archive_filter_count(a) > 2)
		return err_set(err, -EBADMSG, "the archive is compressed more than once");
	return 0;
}

static int open_tar(struct extract *x, struct err *err)
{
	x->inflate = archive_read_new();
	if (!x->inflate)
		return err_set(err, -ENOMEM, "no memory for an archive");
	int r = open_inflate(x, err);
	if (r < 0)
		return r;
	if (archive_read_support_format_tar(x->members) != ARCHIVE_OK)
		return err_set(err, -ENOTSUP, "libarchive lacks tar");
	if (archive_read_open(x->members, x, NULL, read_plain, NULL) != ARCHIVE_OK)
		return refuse(x, x->members, err);
	return 0;
}

static int open_zip(struct extract *x, struct err *err)
{
	struct archive *a = x->members;

	if (archive_read_support_format_zip_seekable(a) != ARCHIVE_OK ||
		archive_read_set_seek_callback(a, seek_raw) != ARCHIVE_OK)
		return err_set(err, -ENOTSUP, "libarchive lacks zip");
	if (archive_read_open2(a, x, NULL, read_raw, skip_raw, NULL) != ARCHIVE_OK)
		return refuse(x, a, err);
	return 0;
}

int extract_open(const struct extract_source *source, struct extract **ret, struct err *err)
{
	CLEANUP(extract_freep) struct extract *x = xnew(struct extract);

	x->source = *source;
	if (x->source.max_bytes > BYTES_MAX)
		x->source.max_bytes = BYTES_MAX;
	x->is_over = true; /* there is no member yet */
	x->members = archive_read_new();
	if (!x->members)
		return err_set(err, -ENOMEM, "no memory for an archive");
	enter_locale(x);
	int r = source->format == EXTRACT_ZIP ? open_zip(x, err) : open_tar(x, err);
	if (r == 0)
		*ret = TAKE(x);
	return r;
}

void extract_free(struct extract *x)
{
	if (!x)
		return;
	(void)archive_read_free(x->members);
	(void)archive_read_free(x->inflate);
	leave_locale(x);
	free(x);
}

/* Behind the last member: what is left still has checksums. */
static int drain(struct extract *x, struct err *err)
{
	const void *block;
	la_ssize_t n = 0;

	while (x->inflate && (n = read_plain(x->members, x, &block)) > 0)
		;
	return n < 0 ? refuse(x, x->members, err) : 0;
}

static void fill_member(struct extract *x, struct archive_entry *e, struct extract_member *ret)
{
	mode_t type = archive_entry_filetype(e);

	ret->kind = EXTRACT_OTHER;
	if (!archive_entry_hardlink(e) && !archive_entry_symlink(e))
		ret->kind = type == AE_IFREG   ? EXTRACT_FILE
			    : type == AE_IFDIR ? EXTRACT_DIR
					       : EXTRACT_OTHER;
	ret->name = archive_entry_pathname(e);
	ret->is_executable = archive_entry_perm(e) & S_IXUSR;
	/* What a zip declares is only a claim; a tar would have to be cut off there. */
	la_int64_t size = x->inflate && archive_entry_size_is_set(e) ? archive_entry_size(e) : 0;
	x->declared = size > 0 ? (uint64_t)size : 0;
	x->at = x->block_at = x->block_size = 0;
	x->is_over = ret->kind != EXTRACT_FILE;
}

int extract_next(struct extract *x, struct extract_member *ret, struct err *err)
{
	struct archive_entry *e = NULL;
	const void *data;
	size_t size;
	int r;

	if (x->has_ended)
		return 0;
	/* First the rest of the last member, since that is not reading a header. */
	while ((r = extract_data(x, &data, &size, err)) != 0)
		if (r < 0)
			return r;
	x->in_header = true;
	x->header_left = x->inflate ? TAR_HEADER_MAX : ZIP_HEADER_MAX;
	r = archive_read_next_header(x->members, &e);
	x->in_header = false;
	if (r == ARCHIVE_EOF) {
		x->has_ended = true;
		return drain(x, err);
	}
	/* A warning is about attributes that nobody here wants. */
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return refuse(x, x->members, err);
	fill_member(x, e, ret);
	return 1;
}

/* 1 with a block, 0 at the end of the member. */
static int read_block(struct extract *x, struct err *err)
{
	const void *data = NULL;
	size_t size = 0;
	la_int64_t offset = 0;
	int r = archive_read_data_block(x->members, &data, &size, &offset);

	if (r == ARCHIVE_EOF) {
		/* A sparse file may end with a hole. */
		x->is_over = true;
		size = 0;
		offset = (la_int64_t)(x->declared > x->at ? x->declared : x->at);
	} else if (r != ARCHIVE_OK) {
		return refuse(x, x->members, err);
	}
	if (offset < 0 || (uint64_t)offset < x->at)
		return err_set(err, -EBADMSG, "not a good archive: its pieces overlap");
	x->block = data;
	x->block_size = size;
	x->block_at = (uint64_t)offset;
	r = check_growth(x, x->n_out, x->block_at - x->at + size, 0, err);
	if (r < 0)
		return r;
	x->n_out += x->block_at - x->at + size;
	return x->block_at > x->at || size > 0 || !x->is_over;
}

int extract_data(struct extract *x, const void **ret, size_t *ret_size, struct err *err)
{
	while (x->at == x->block_at && x->block_size == 0) {
		int r = x->is_over ? 0 : read_block(x, err);

		if (r <= 0)
			return r;
	}
	uint64_t hole = x->block_at - x->at;
	if (hole > 0) {
		*ret = zeros;
		*ret_size = hole < sizeof(zeros) ? (size_t)hole : sizeof(zeros);
		x->at += *ret_size;
		return 1;
	}
	*ret = x->block;
	*ret_size = x->block_size;
	x->at += x->block_size;
	x->block_at = x->at;
	x->block_size = 0;
	return 1;
}
