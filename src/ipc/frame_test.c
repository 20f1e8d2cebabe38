#include "ipc/frame.h"

#include <endian.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "ipc/cur.h"
#include "ipc/message.h"
#include "lib/scratch.h"
#include "lib/test.h"

static uint8_t buffer[FRAME_SIZE_MAX];

/* Both ends of a connection; its own descriptors are closed with the scope. */
struct pair {
	int a;
	int b;
};

static void pair_fini(struct pair *p)
{
	close_fdp(&p->a);
	close_fdp(&p->b);
}

static struct pair pair_make(void)
{
	int ends[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	return (struct pair){ ends[0], ends[1] };
}

#define PAIR(name) CLEANUP(pair_fini) struct pair name = pair_make()

/* A message as only somebody else would send it. */
static void send_raw(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
	char control[CMSG_SPACE(sizeof(int) * 64)] = { 0 };
	struct iovec part = { (void *)data, size };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	if (n_fds > 0) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	CHECK_EQ(sendmsg(sock, &msg, 0), (ssize_t)size);
}

static const uint32_t good_header[2] = { MESSAGE_VERSION, MESSAGE_HELLO };

TEST(a_message_arrives_with_its_payload)
{
	PAIR(p);
	struct put out;
	struct frame f;

	put_init(&out, 64);
	put_str(&out, "hello");
	CHECK_EQ(frame_send(p.a, MESSAGE_START, &out, NULL, 0), 0);
	CHECK_EQ(frame_send(p.a, MESSAGE_HELLO, NULL, NULL, 0), 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_START);
	CHECK_EQ(f.size, out.size);
	CHECK_MEM(f.data, out.data, out.size);
	CHECK_EQ(f.n_fds, 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_HELLO);
	CHECK_EQ(f.size, 0);
	put_fini(&out);
}

TEST(descriptors_arrive_in_order_and_close_on_exec)
{
	PAIR(p);
	SCRATCH(s);
	int fds[FRAME_FDS_MAX];
	struct frame f;
	struct stat sent, got;

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		char name[] = { (char)('a' + i), '\0' };

		fds[i] = openat(s.fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CHECK(fds[i] >= 0);
	}
	size_t n_before = scratch_count_fds();
	CHECK_EQ(frame_send(p.a, MESSAGE_STARTED, NULL, fds, ARRAY_SIZE(fds)), 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), 1);
	CHECK_EQ(f.n_fds, ARRAY_SIZE(fds));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		CHECK_EQ(fstat(fds[i], &sent), 0);
		CHECK_EQ(fstat(f.fds[i], &got), 0);
		CHECK_EQ(sent.st_ino, got.st_ino);
		CHECK(fcntl(f.fds[i], F_GETFD) & FD_CLOEXEC);
	}
	int taken = take_fd(&f.fds[3]);
	frame_close_fds(&f);
	CHECK_EQ(f.n_fds, 0);
	CHECK_EQ(scratch_count_fds(), n_before + 1);
	(void)close(taken);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
}

TEST(too_many_descriptors_are_all_closed)
{
	PAIR(p);
	struct frame f = { .type = 77 };
	int fds[64];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = p.a;
	CHECK_EQ(frame_send(p.a, MESSAGE_HELLO, NULL, fds, FRAME_FDS_MAX + 1), -E2BIG);
	size_t n_before = scratch_count_fds();
	for (size_t n = FRAME_FDS_MAX + 1; n <= ARRAY_SIZE(fds); n++) {
		send_raw(p.a, good_header, sizeof(good_header), fds, n);
		CHECK_EQ(frame_recv(p.b, buffer, &f), -EBADMSG);
	}
	CHECK_EQ(scratch_count_fds(), n_before);
	CHECK_EQ(f.type, 77);
}

TEST(descriptors_of_a_bad_message_are_closed)
{
	PAIR(p);
	uint32_t other_version[2] = { htole32(MESSAGE_VERSION + 1), htole32(MESSAGE_HELLO) };
	struct frame f;
	size_t n_before = scratch_count_fds();

	send_raw(p.a, other_version, sizeof(other_version), &p.a, 1);
	CHECK_EQ(frame_recv(p.b, buffer, &f), -EPROTO);
	send_raw(p.a, good_header, 4, &p.a, 1);
	CHECK_EQ(frame_recv(p.b, buffer, &f), -EBADMSG);
	send_raw(p.a, good_header, 0, &p.a, 1);
	CHECK_EQ(frame_recv(p.b, buffer, &f), -EBADMSG);
	CHECK_EQ(scratch_count_fds(), n_before);
}

TEST(short_messages_are_no_messages)
{
	PAIR(p);
	struct frame f;

	for (size_t n = 1; n < sizeof(good_header); n++) {
		send_raw(p.a, good_header, n, NULL, 0);
		CHECK_EQ(frame_recv(p.b, buffer, &f), -EBADMSG);
	}
	send_raw(p.a, good_header, sizeof(good_header), NULL, 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), 1);
}

TEST(messages_have_a_largest_size)
{
	PAIR(p);
	struct frame f;
	struct put out;
	AUTO_FREE uint8_t *zeros = calloc(1, FRAME_SIZE_MAX + 1);

	put_init(&out, 2 * FRAME_SIZE_MAX);
	put_bytes(&out, zeros, FRAME_SIZE_MAX - sizeof(good_header));
	CHECK_EQ(frame_send(p.a, MESSAGE_START, &out, NULL, 0), 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), 1);
	CHECK_EQ(f.size, FRAME_SIZE_MAX - sizeof(good_header));
	put_u8(&out, 0);
	CHECK_EQ(frame_send(p.a, MESSAGE_START, &out, NULL, 0), -E2BIG);
	put_fini(&out);
	memcpy(zeros, good_header, sizeof(good_header));
	send_raw(p.a, zeros, FRAME_SIZE_MAX + 1, NULL, 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), -EBADMSG);
}

TEST(a_payload_that_passed_its_limit_is_not_sent)
{
	PAIR(p);
	struct put out;
	struct frame f;

	put_init(&out, 2);
	put_u32(&out, 1);
	CHECK_EQ(frame_send(p.a, MESSAGE_START, &out, NULL, 0), -E2BIG);
	put_fini(&out);
	CHECK_EQ(fd_set_nonblock(p.b, true), 0);
	CHECK_EQ(frame_recv(p.b, buffer, &f), -EAGAIN);
}

TEST(the_end_of_a_connection_is_no_error_to_read)
{
	PAIR(p);
	struct frame f;

	CHECK_EQ(frame_send(p.a, MESSAGE_HELLO, NULL, NULL, 0), 0);
	close_fdp(&p.a);
	CHECK_EQ(frame_recv(p.b, buffer, &f), 1); /* what was sent before still comes */
	CHECK_EQ(frame_recv(p.b, buffer, &f), 0);
	CHECK_EQ(frame_send(p.b, MESSAGE_HELLO, NULL, NULL, 0), -EPIPE);
	CHECK_EQ(frame_recv(-1, buffer, &f), -EBADF);
}

TEST(a_full_socket_says_so)
{
	PAIR(p);
	int r;
	int n_sent = 0;

	CHECK_EQ(fd_set_nonblock(p.a, true), 0);
	while ((r = frame_send(p.a, MESSAGE_HELLO, NULL, NULL, 0)) == 0)
		n_sent++;
	CHECK_EQ(r, -EAGAIN);
	CHECK(n_sent > 0);
}

TEST(descriptors_for_which_there_is_no_room_are_lost_not_the_message)
{
	PAIR(p);
	struct frame f = { 0 };
	struct rlimit limit;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(frame_send(p.a, MESSAGE_HELLO, NULL, &p.a, 1), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, limit.rlim_max }), 0);
	int r = frame_recv(p.b, buffer, &f);
	int r_lossy = frame_recv_lossy(p.b, buffer, &f);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK_EQ(r, -EBADMSG);
	CHECK_EQ(r_lossy, 1);
	CHECK_EQ(f.type, MESSAGE_HELLO);
	CHECK_EQ(f.n_fds, 0);
}

TESTS(UNIT(descriptors_for_which_there_is_no_room_are_lost_not_the_message),
	UNIT(a_message_arrives_with_its_payload),
	UNIT(descriptors_arrive_in_order_and_close_on_exec),
	UNIT(too_many_descriptors_are_all_closed), UNIT(descriptors_of_a_bad_message_are_closed),
	UNIT(short_messages_are_no_messages), UNIT(messages_have_a_largest_size),
	UNIT(a_payload_that_passed_its_limit_is_not_sent),
	UNIT(the_end_of_a_connection_is_no_error_to_read), UNIT(a_full_socket_says_so))
