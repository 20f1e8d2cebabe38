/* For tests of uploads: what is sent, and a room for what comes of it. */
#pragma once
#include <errno.h>

#include "core/archive_sample.h"
#include "core/upload.h"
#include "lib/pack_room.h"
#include "lib/test.h"

static const struct upload_limits wide = {
	.max_bytes = 16 << 20,
	.max_files = 1000,
	.max_depth = 10,
	.max_ratio = 100,
};

/* What most archives hold. */
static const struct member tree[] = {
	{ "./", NULL, AE_IFDIR, 0700 },
	{ "./src/", NULL, AE_IFDIR, 0700 },
	{ "./src/main.c", "int main;", 0, 0600 },
	{ "run.sh", "#!/bin/sh", 0, 04711 },
	{ "empty/dir/", NULL, AE_IFDIR },
	{ "gr\xc3\xbc\xc3\x9f"
	  "e.txt",
		"hallo" },
	{ NULL },
};

static inline struct upload_source source_of(int fd, const char *name)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	return (struct upload_source){ .fd = fd, .size = (uint64_t)st.st_size, .name = name };
}

/* Upload one source into `room`; the caller looks at what came. */
static inline int pack_one(struct pack_room *room, int fd, const char *name,
	const struct upload_limits *limits, struct upload_result *ret, struct err *err)
{
	struct upload_source source = source_of(fd, name);
	int r = upload_pack(&source, 1, limits, &room->writer, ret, err);

	if (r == 0)
		r = pack_write_end(&room->writer, err);
	int unpacked = pack_room_close(room);
	CHECK_EQ(unpacked, r == 0 ? 0 : -EBADMSG);
	if (r < 0)
		CHECK_EQ(room->n_bytes, 0); /* refused before a byte was sent */
	return r;
}

static inline int text_fd(const char *text, size_t size)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, size), 0);
	return fd;
}

static inline int format_zip_stored(struct archive *a)
{
	int r = archive_write_set_format_zip(a);

	return r ? r : archive_write_zip_set_compression_store(a);
}

/* A file of `size` bytes with five in the middle, the rest holes. */
static inline int make_sparse(uint64_t size)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	int fd = memfd_create("archive", MFD_CLOEXEC);

	CHECK_EQ(archive_write_set_format_pax(a), ARCHIVE_OK);
	CHECK_EQ(archive_write_open_fd(a, fd), ARCHIVE_OK);
	archive_entry_set_pathname(e, "sparse");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)size);
	archive_entry_sparse_add_entry(e, 100000, 5);
	CHECK_EQ(archive_write_header(a, e), ARCHIVE_OK);
	AUTO_FREE char *data = calloc(1, 100005);
	memcpy(data + 100000, "hello", 5);
	CHECK(archive_write_data(a, data, 100005) >= 0);
	CHECK_EQ(archive_write_close(a), ARCHIVE_OK);
	archive_entry_free(e);
	archive_write_free(a);
	return fd;
}
