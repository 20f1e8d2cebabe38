#include "image/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/statvfs.h>

#include "base/err.h"

/* Asking the disk costs a system call, so not for every small file. */
#define CHECK_EVERY_BYTES   (UINT64_C(16) << 20)
#define CHECK_EVERY_ENTRIES 1024u

void budget_init(struct budget *b, uint64_t bytes_max, int disk_fd)
{
	*b = (struct budget){ .bytes_max = bytes_max, .disk_fd = disk_fd };
}

static int check_disk(const struct budget *b, uint64_t bytes, struct err *err)
{
	struct statvfs fs;

	if (fstatvfs(b->disk_fd, &fs) < 0)
		return err_errno(err, "ask for free disk space");
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (room < BUDGET_FREE_MIN || room - BUDGET_FREE_MIN < bytes)
		return err_set(err, -ENOSPC,
			"%" PRIu64 " more bytes do not fit, the disk has %" PRIu64
			" free and %" PRIu64 " are kept free",
			bytes, room, BUDGET_FREE_MIN);
	/* File systems without a fixed number of inodes report zero. */
	if (fs.f_files > 0 && fs.f_favail < BUDGET_INODES_MIN)
		return err_set(err, -ENOSPC, "the disk has only %" PRIu64 " inodes free",
			(uint64_t)fs.f_favail);
	return 0;
}

static int take(
	const struct budget *b, uint64_t *used, uint64_t bytes, const char *what, struct err *err)
{
	if (bytes > b->bytes_max || *used > b->bytes_max - bytes)
		return err_set(err, -EFBIG, "%s is larger than %" PRIu64 " bytes, see --max-size",
			what, b->bytes_max);
	*used += bytes;
	return 0;
}

int budget_take_content(struct budget *b, uint64_t bytes, struct err *err)
{
	int r = take(b, &b->content, bytes, "the content of all files together", err);
	if (r < 0)
		return r;
	b->since_check += bytes;
	if (b->since_check < CHECK_EVERY_BYTES)
		return 0;
	b->since_check = 0;
	return check_disk(b, bytes, err);
}

int budget_take_stream(struct budget *b, uint64_t bytes, struct err *err)
{
	return take(b, &b->stream, bytes, "the uncompressed archive", err);
}

int budget_take_raw(struct budget *b, uint64_t bytes, struct err *err)
{
	return take(b, &b->raw, bytes, "the archive", err);
}

int budget_take_entry(struct budget *b, struct err *err)
{
	if (b->entries >= BUDGET_ENTRIES_MAX)
		return err_set(err, -EFBIG, "more than %" PRIu64 " entries", BUDGET_ENTRIES_MAX);
	return b->entries++ % CHECK_EVERY_ENTRIES == 0 ? check_disk(b, 0, err) : 0;
}
