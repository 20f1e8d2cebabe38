/* Archives in memory, of what a test wants to be in them. */
#pragma once
#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/test.h"

struct member {
	const char *name;
	const char *text;
	unsigned type; /* AE_IFREG when 0 */
	unsigned mode;
	const char *link;
	const char *hard;
};

typedef int format_fn(struct archive *a);

static inline void put(struct archive *a, const struct member *m)
{
	struct archive_entry *e = archive_entry_new();
	size_t size = m->text ? strlen(m->text) : 0;

	archive_entry_set_pathname(e, m->name);
	archive_entry_set_filetype(e, m->type ? m->type : AE_IFREG);
	archive_entry_set_perm(e, (mode_t)(m->mode ? m->mode : 0644));
	if (m->link)
		archive_entry_set_symlink(e, m->link);
	if (m->hard)
		archive_entry_set_hardlink(e, m->hard);
	archive_entry_set_size(e, (la_int64_t)size);
	CHECK(archive_write_header(a, e) >= ARCHIVE_WARN);
	if (size > 0)
		CHECK_EQ(archive_write_data(a, m->text, size), size);
	archive_entry_free(e);
}

/* A file in memory that holds an archive of `members`, ended by one without a name. */
static inline int make_archive(format_fn *format, format_fn *filter, const struct member *members)
{
	struct archive *a = archive_write_new();
	int fd = memfd_create("archive", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(format(a), ARCHIVE_OK);
	if (filter)
		CHECK_EQ(filter(a), ARCHIVE_OK);
	CHECK_EQ(archive_write_open_fd(a, fd), ARCHIVE_OK);
	for (; members->name; members++)
		put(a, members);
	CHECK_EQ(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return fd;
}
