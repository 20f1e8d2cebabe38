/* What this directory does when the system does not. */
#include "lib/fault.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/err.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/pack_write.h"
#include "ipc/sample.h"
#include "ipc/spec.h"
#include "ipc/unpack.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* clang-format off */
FAULT(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAULT(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
FAULT(int, symlinkat, (const char *to, int fd, const char *path), (to, fd, path))
FAULT(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FAULT(long, syscall, (long nr, long a, long b, long c, long d), (nr, a, b, c, d))
FAULT(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
FAULT(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
FAULT(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
FAULT_AS(NULL, void *, malloc, (size_t size), (size))
/* clang-format on */

static uint8_t buffer[FRAME_SIZE_MAX];

static bool is_absent_or_whole(int dir_fd, const char *name, const char *text)
{
	return !scratch_has(dir_fd, name) || scratch_holds(dir_fd, name, text);
}

TEST(unpacking_leaves_whole_files_or_none)
{
	static struct unpack unpack;
	static struct pack_reader reader;
	SAMPLE(s);
	int n = 1;

	sample_dir(&s, "dir", 0755);
	sample_file(&s, "dir/one", "first");
	sample_file(&s, "made/on/the/way/two", "second");
	sample_link(&s, "links/three", "two");
	sample_end(&s);
	for (;; n++) {
		SCRATCH(d);
		struct err err = { 0 };
		size_t n_before = scratch_count_fds();

		unpack_init(&unpack, d.fd, UINT64_MAX);
		pack_reader_init(&reader, &unpack.sink);
		if (!fault_arm(n, EIO))
			break;
		int r = pack_feed(&reader, s.out.data, s.out.size, &err);
		bool fired = fault_disarm();
		unpack_fini(&unpack);
		CHECK_EQ(r, fired ? -EIO : 0);
		CHECK(!fired || strstr(err.text, "Input/output error"));
		CHECK_EQ(scratch_count_fds(), n_before);
		CHECK(is_absent_or_whole(d.fd, "dir/one", "first"));
		CHECK(is_absent_or_whole(d.fd, "made/on/the/way/two", "second"));
	}
	CHECK(n > 10); /* there was something to fail */
}

TEST(a_spec_that_does_not_fit_into_memory_is_refused)
{
	static char *argv[] = { (char *)"a", (char *)"b", (char *)"c", NULL };
	struct spec sent;
	struct put p;
	int n = 1;

	spec_init(&sent);
	spec_make_id(sent.id);
	sent.argv = sent.env = argv;
	put_init(&p, SPEC_SIZE_MAX);
	spec_put(&sent, &p);
	for (; fault_arm(n, ENOMEM); n++) {
		CLEANUP(spec_fini) struct spec got;
		struct cur c;

		cur_init(&c, p.data, p.size);
		spec_get(&got, &c);
		bool fired = fault_disarm();
		CHECK_EQ(cur_end(&c), fired ? -EBADMSG : 0);
	}
	put_fini(&p);
	CHECK(n > 6);
}

TEST(messages_survive_interruptions_and_report_failures)
{
	static const struct {
		int code;
		int sent; /* what becomes of it */
	} rows[] = { { EINTR, 0 }, { EIO, -EIO }, { ENOBUFS, -ENOBUFS } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int ends[2];
		struct frame f = { .type = 77 };

		CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		size_t n_before = scratch_count_fds();
		CHECK(fault_arm(1, rows[i].code));
		CHECK_EQ(frame_send(ends[0], MESSAGE_HELLO, NULL, ends, 2), rows[i].sent);
		CHECK(fault_disarm());
		if (rows[i].sent < 0)
			CHECK_EQ(frame_send(ends[0], MESSAGE_HELLO, NULL, ends, 2), 0);
		CHECK(fault_arm(1, rows[i].code));
		int r = frame_recv(ends[1], buffer, &f);
		CHECK(fault_disarm());
		CHECK_EQ(r, rows[i].code == EINTR ? 1 : -rows[i].code);
		CHECK_EQ(f.type, r == 1 ? MESSAGE_HELLO : 77);
		if (r == 1)
			frame_close_fds(&f);
		CHECK_EQ(scratch_count_fds(), n_before);
		(void)close(ends[0]);
		(void)close(ends[1]);
	}
}

TEST(writing_files_survives_interruptions_and_reports_failures)
{
	SCRATCH(d);
	char drain[4096];
	int ends[2];

	scratch_write(d.fd, "a", "first");
	CHECK_EQ(mkdirat(d.fd, "b", 0755), 0);
	CHECK_EQ(symlinkat("a", d.fd, "b/c"), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	size_t n_before = scratch_count_fds();
	static const int codes[] = { EINTR, EPIPE };
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		int n = 1;

		for (; fault_arm(n, codes[i]); n++) {
			struct pack_writer w = { .fd = ends[0], .max_bytes = UINT64_MAX };
			int r = pack_write_tree(&w, "", d.fd, NULL);

			if (r == 0)
				r = pack_write_end(&w, NULL);
			bool fired = fault_disarm();
			CHECK_EQ(r, fired && codes[i] != EINTR ? -codes[i] : 0);
			CHECK_EQ(scratch_count_fds(), n_before);
			while (recv(ends[1], drain, sizeof(drain), MSG_DONTWAIT) > 0)
				;
		}
		CHECK(n > 5);
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
}

TESTS(UNIT(unpacking_leaves_whole_files_or_none),
	UNIT(a_spec_that_does_not_fit_into_memory_is_refused),
	UNIT(messages_survive_interruptions_and_report_failures),
	UNIT(writing_files_survives_interruptions_and_reports_failures))
