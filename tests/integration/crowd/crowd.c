/* Many subscribers of one stream, in one process:
 *
 *	crowd PORT TARGET KEY N_READERS N_STUCK N_CAREFUL
 *
 * opens N_READERS + N_STUCK WebSockets, says "ready", and reads until every reader got the
 * "end" event, or SECONDS_MAX. Those that are stuck never read after their handshake. Careful
 * readers look at every byte; the others let the kernel throw away all of a message but its
 * last bytes, which hold its number. Then it prints, as one line of numbers, for all readers:
 *
 *	readers that got all | frames of each | bytes of each | digest of the careful ones
 *	| milliseconds from the first byte of output until the last reader had all
 *
 * and exits with 1 when two of them differ. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_MAX 300
#define TAIL_SIZE   64u /* of a message: ,"seq":18446744073709551615} fits */
#define EVENTS_MAX  256
#define TURN_BYTES  (256u << 10)

enum state { READS_HEAD, READS_BODY, READS_TAIL, IS_DONE };

struct reader {
	int fd;
	enum state state;
	bool is_careful;
	unsigned char head[10];
	size_t n_head;
	uint64_t left; /* bytes of the message before its tail */
	size_t tail_size;
	char tail[TAIL_SIZE + 1];
	size_t n_tail;
	uint64_t n_frames;
	uint64_t n_bytes;
	uint64_t digest;
};

static uint64_t first_ns;

static _Noreturn void fail(const char *what)
{
	(void)fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
	exit(2);
}

static _Noreturn void fail_protocol(const struct reader *r, const char *what)
{
	(void)fprintf(stderr, "crowd: after frame %llu: %s (%s)\n", (unsigned long long)r->n_frames,
		what, r->tail);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- connecting --- */

static void read_answer(int fd)
{
	char line[2048];
	size_t n = 0;

	do {
		if (n + 1 >= sizeof(line) || recv(fd, line + n, 1, 0) != 1)
			fail("handshake");
		line[++n] = '\0';
	} while (n < 4 || strcmp(line + n - 4, "\r\n\r\n") != 0);
	if (strncmp(line, "HTTP/1.1 101 ", 13) != 0) {
		(void)fprintf(stderr, "crowd: %s\n", line);
		exit(2);
	}
}

static int subscribe(uint16_t port, const char *target, const char *key)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	char ask[2048];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		fail("connect");
	int n = snprintf(ask, sizeof(ask),
		"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nX-API-KEY: %s\r\n"
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		target, (unsigned)port, key);
	if (n >= (int)sizeof(ask) || send(fd, ask, (size_t)n, 0) != n)
		fail("send");
	read_answer(fd);
	return fd;
}

/* --- reading --- */

/* -1: nothing now. */
static ssize_t take(struct reader *r, void *to, size_t size, int flags)
{
	ssize_t n = recv(r->fd, to, size, MSG_DONTWAIT | flags);

	if (n == 0)
		fail_protocol(r, "the server hung up");
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		fail("recv");
	return n;
}

static size_t head_size(const struct reader *r)
{
	if (r->n_head < 2)
		return 2;
	unsigned size = r->head[1] & 0x7f;
	return size == 127 ? 10 : size == 126 ? 4 : 2;
}

static uint64_t body_size(const struct reader *r)
{
	size_t from = 2;
	uint64_t size = r->head[1] & 0x7f;

	if (size < 126)
		return size;
	for (size = 0; from < head_size(r); from++)
		size = size << 8 | r->head[from];
	return size;
}

static void answer_ping(struct reader *r)
{
	static const unsigned char pong[] = { 0x8a, 0x80, 0, 0, 0, 0 }; /* with a mask of zeroes */

	if (body_size(r) != 0 || send(r->fd, pong, sizeof(pong), 0) != sizeof(pong))
		fail("answer a ping");
	r->n_head = 0;
}

static bool read_head(struct reader *r)
{
	ssize_t n = take(r, r->head + r->n_head, head_size(r) - r->n_head, 0);

	if (n < 0)
		return false;
	r->n_head += (size_t)n;
	if (r->n_head < 2 || r->n_head < head_size(r))
		return true;
	if (r->head[0] == 0x89) {
		answer_ping(r);
		return true;
	}
	if (r->head[0] != 0x81)
		fail_protocol(r, "a frame that is no text");
	uint64_t size = body_size(r);
	r->n_bytes += size;
	r->tail_size = size < TAIL_SIZE ? (size_t)size : TAIL_SIZE;
	r->left = size - r->tail_size;
	r->n_tail = 0;
	r->state = r->left > 0 ? READS_BODY : READS_TAIL;
	return true;
}

static void digest(struct reader *r, const char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		r->digest = (r->digest ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
}

static bool read_body(struct reader *r)
{
	static char buffer[TURN_BYTES];
	size_t size = r->left < sizeof(buffer) ? (size_t)r->left : sizeof(buffer);
	/* The kernel counts what it throws away, and does not copy it. */
	ssize_t n = take(r, buffer, size, r->is_careful ? 0 : MSG_TRUNC);

	if (n < 0)
		return false;
	if (r->is_careful)
		digest(r, buffer, (size_t)n);
	r->left -= (uint64_t)n;
	if (r->left == 0)
		r->state = READS_TAIL;
	return true;
}

static void end_message(struct reader *r)
{
	static const char mark[] = ",\"seq\":";
	char *at = NULL;

	r->tail[r->n_tail] = '\0';
	digest(r, r->tail, r->is_careful ? r->n_tail : 0);
	for (char *p = r->tail; (p = strstr(p, mark)); p++)
		at = p;
	if (!at || strtoull(at + sizeof(mark) - 1, NULL, 10) != r->n_frames + 1)
		fail_protocol(r, "the next frame has another number");
	r->n_frames++;
	/* The guest's words have their quotes escaped. */
	r->state = strstr(r->tail, "\"reason\":\"") ? IS_DONE : READS_HEAD;
	r->n_head = 0;
	if (!first_ns && r->n_frames == 2)
		first_ns = now_ns();
}

static bool read_tail(struct reader *r)
{
	ssize_t n = take(r, r->tail + r->n_tail, r->tail_size - r->n_tail, 0);

	if (n < 0)
		return false;
	r->n_tail += (size_t)n;
	if (r->n_tail == r->tail_size)
		end_message(r);
	return true;
}

static bool (*const steps[])(struct reader *r) = {
	[READS_HEAD] = read_head,
	[READS_BODY] = read_body,
	[READS_TAIL] = read_tail,
};

static void read_some(struct reader *r)
{
	for (int i = 0; i < 64 && r->state != IS_DONE; i++) {
		if (!steps[r->state](r))
			return;
	}
}

/* --- all of them --- */

static size_t read_all(int epoll_fd, size_t n_readers)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t until = now_ns() + UINT64_C(1000000000) * SECONDS_MAX;
	size_t n_done = 0;

	while (n_done < n_readers && now_ns() < until) {
		int n = epoll_wait(epoll_fd, events, EVENTS_MAX, 1000);

		for (int i = 0; i < n; i++) {
			struct reader *r = events[i].data.ptr;

			read_some(r);
			if (r->state != IS_DONE)
				continue;
			n_done++;
			(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, r->fd, NULL);
		}
	}
	return n_done;
}

static int report(const struct reader *readers, size_t n, size_t n_done)
{
	int status = n_done == n ? 0 : 1;

	for (size_t i = 0; i < n; i++) {
		const struct reader *first = &readers[readers[i].is_careful ? 0 : i];

		if (readers[i].n_frames != readers[0].n_frames ||
			readers[i].n_bytes != readers[0].n_bytes ||
			readers[i].digest != first->digest)
			status = 1;
	}
	(void)printf("%zu %llu %llu %016llx %llu\n", n_done,
		(unsigned long long)readers[0].n_frames, (unsigned long long)readers[0].n_bytes,
		(unsigned long long)readers[0].digest,
		(unsigned long long)((now_ns() - first_ns) / 1000000));
	return status;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 0 };

	if (argc != 7)
		return 2;
	uint16_t port = (uint16_t)atoi(argv[1]);
	size_t n_readers = (size_t)atoi(argv[4]);
	size_t n_stuck = (size_t)atoi(argv[5]);
	size_t n_careful = (size_t)atoi(argv[6]);
	struct reader *readers = calloc(n_readers, sizeof(*readers));
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	(void)getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	for (size_t i = 0; i < n_stuck; i++)
		(void)subscribe(port, argv[2], argv[3]);
	for (size_t i = 0; i < n_readers; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = &readers[i] };

		readers[i].fd = subscribe(port, argv[2], argv[3]);
		readers[i].is_careful = i < n_careful;
		readers[i].digest = UINT64_C(0xcbf29ce484222325);
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, readers[i].fd, &event) < 0)
			fail("epoll");
	}
	(void)printf("ready\n");
	(void)fflush(stdout);
	return report(readers, n_readers, read_all(epoll_fd, n_readers));
}
