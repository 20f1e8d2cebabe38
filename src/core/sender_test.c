#include "core/sender.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/err.h"
#include "lib/pack_room.h"
#include "lib/test.h"

static int text_fd(const char *text)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	return fd;
}

TEST(pieces_become_files)
{
	PACK_ROOM(room);
	struct pack_writer *w = &room.writer;
	AUTO_FD fd = text_fd("0123456789");

	CHECK_EQ(sender_dir(w, "d", 0755, NULL), 0);
	CHECK_EQ(sender_file(w, "d/a", 0644, 4, NULL), 0);
	CHECK_EQ(sender_data(w, "ab", 2, NULL), 0);
	CHECK_EQ(sender_data(w, "cd", 2, NULL), 0);
	CHECK_EQ(sender_file(w, "b", 0755, 5, NULL), 0);
	CHECK_EQ(sender_range(w, fd, 3, 5, NULL), 0);
	CHECK_EQ(pack_write_bytes(w, "c", 0644, "c", 1, NULL), 0);
	CHECK_EQ(pack_write_end(w, NULL), 0);
	CHECK_EQ(w->n_bytes, 10);
	CHECK_EQ(pack_room_close(&room), 0);
	CHECK(scratch_holds(room.dir.fd, "d/a", "abcd"));
	CHECK(scratch_holds(room.dir.fd, "b", "34567"));
	CHECK(scratch_holds(room.dir.fd, "c", "c"));
}

TEST(what_is_too_short_is_an_error)
{
	PACK_ROOM(room);
	AUTO_FD fd = text_fd("0123456789");
	struct err err = { 0 };

	CHECK_EQ(sender_file(&room.writer, "b", 0755, 20, NULL), 0);
	CHECK_EQ(sender_range(&room.writer, fd, 0, 20, &err), -EIO);
	CHECK(err.text[0]);
	CHECK_EQ(pack_room_close(&room), -EBADMSG);
	CHECK(!scratch_has(room.dir.fd, "b"));
}

TEST(names_must_be_clean)
{
	static const char *const bad[] = { "", "/a", "../a", "a/", "a//b" };
	PACK_ROOM(room);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(sender_dir(&room.writer, bad[i], 0755, NULL), -EINVAL);
		CHECK_EQ(sender_file(&room.writer, bad[i], 0644, 0, NULL), -EINVAL);
	}
	CHECK_EQ(room.writer.n_entries, 0);
}

TEST(entries_are_limited)
{
	PACK_ROOM(room);

	room.writer.n_entries = PACK_ENTRIES_MAX - 1;
	CHECK_EQ(sender_dir(&room.writer, "a", 0755, NULL), 0);
	CHECK_EQ(sender_dir(&room.writer, "b", 0755, NULL), -E2BIG);
}

TESTS(UNIT(pieces_become_files), UNIT(what_is_too_short_is_an_error), UNIT(names_must_be_clean),
	UNIT(entries_are_limited))
