#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/net.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

static int connect_to(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHILD_CHECK(fd >= 0 && inet_pton(AF_INET, address, &to.sin_addr) == 1);
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

/* Nobody can be reached from here, but those who are here too. */
static void check_only_lo(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t size = sizeof(any);
	AUTO_FD listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHILD_CHECK(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHILD_CHECK(listen(listener, 1) == 0);
	CHILD_CHECK(getsockname(listener, (struct sockaddr *)&any, &size) == 0);
	CHILD_CHECK(connect_to("127.0.0.1", ntohs(any.sin_port)) == 0);
	CHILD_CHECK(connect_to("192.0.2.1", 80) == -ENETUNREACH);
	CHILD_CHECK(connect_to("169.254.169.254", 80) == -ENETUNREACH);

	struct if_nameindex *all = if_nameindex();
	for (struct if_nameindex *i = all; i->if_index; i++) {
		struct ifreq request = { 0 };

		/* Some kernels add idle tunnels to every namespace. */
		memcpy(request.ifr_name, i->if_name, strnlen(i->if_name, IFNAMSIZ - 1));
		CHILD_CHECK(ioctl(listener, SIOCGIFFLAGS, &request) == 0);
		CHILD_CHECK(!(request.ifr_flags & IFF_UP) || strcmp(i->if_name, "lo") == 0);
	}
	if_freenameindex(all);
}

static ino_t number_of(int fd)
{
	struct stat st;

	CHILD_CHECK(fd < 0 ? stat("/proc/self/ns/net", &st) == 0 : fstat(fd, &st) == 0);
	return st.st_ino;
}

static struct nets *open_nets(void)
{
	struct err err = { 0 };
	struct nets *n = NULL;

	if (unshare(CLONE_NEWUSER) < 0)
		CHILD_SKIP("needs user namespaces");
	if (nets_new(&n, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	return n;
}

static void enter(void *ctx)
{
	struct nets *n = open_nets();
	ino_t home = number_of(-1);
	int fd;

	(void)ctx;
	CHILD_CHECK(connect_to("127.0.0.1", 9) == -ENETUNREACH); /* at home nothing is up */
	CHILD_CHECK(nets_take(n, &fd, NULL) == 0);
	CHILD_CHECK(number_of(-1) == home && number_of(fd) != home);
	CHILD_CHECK(nets_enter(fd) == 0 && number_of(-1) == number_of(fd));
	check_only_lo();
	nets_leave(n);
	CHILD_CHECK(number_of(-1) == home);
	CHILD_CHECK(nets_enter(-1) == -EBADF);
	(void)close(fd);
	nets_free(n);
	nets_free(NULL);
}

TEST(there_is_nothing_but_lo_and_it_works)
{
	IN_CHILD(enter, NULL);
}

#define VIEW_FDS 8

/* Descriptors by which one that was looked at stays open: none where something is missing. */
static size_t count_view_fds(void)
{
	return access("/proc/self/net/snmp6", F_OK) == 0 ? VIEW_FDS : 0;
}

/* Until what was given can be taken. */
static void rest(void)
{
	(void)usleep((NETS_SETTLE_MS + 1) * 1000);
}

static size_t count_views(void)
{
	size_t n = fd_count_spare() / VIEW_FDS;

	return n < NETS_MAX ? n : NETS_MAX;
}

static void give_and_take(void *ctx)
{
	struct nets *n = open_nets();
	int fds[NETS_MAX + 1];

	(void)ctx;
	size_t n_before = scratch_count_fds();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		CHILD_CHECK(nets_take(n, &fds[i], NULL) == 0);
	CHILD_CHECK(number_of(fds[0]) != number_of(fds[1]));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		nets_give(n, fds[i]);
	CHILD_CHECK(nets_count(n) == NETS_MAX);
	CHILD_CHECK(scratch_count_fds() == n_before + NETS_MAX + count_views() * count_view_fds());
	ino_t last = number_of(fds[NETS_MAX - 1]);
	rest();
	CHILD_CHECK(nets_take(n, &fds[0], NULL) == 0 && number_of(fds[0]) == last);
	nets_give(n, fds[0]);
	nets_free(n);
	CHILD_CHECK(scratch_count_fds() == n_before - 1); /* and home */
}

TEST(what_is_given_is_taken_again_and_not_all_is_kept)
{
	IN_CHILD(give_and_take, NULL);
}

/* Who may open little has its descriptors for runs. */
static void be_modest(void *ctx)
{
	struct rlimit limit = { 160, 160 };
	struct nets *n = NULL;
	int fds[20];

	(void)ctx;
	CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	n = open_nets();
	size_t n_before = scratch_count_fds();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		CHILD_CHECK(nets_take(n, &fds[i], NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		nets_give(n, fds[i]);
	CHILD_CHECK(nets_count(n) == fd_count_spare() && fd_count_spare() < ARRAY_SIZE(fds));
	CHILD_CHECK(scratch_count_fds() <= n_before + 2 * fd_count_spare());
	nets_free(n);
}

TEST(who_may_open_little_keeps_little)
{
	IN_CHILD(be_modest, NULL);
}

/* What stays open of one is closed with it, also when others fill all places. */
static void fill_up(void *ctx)
{
	struct nets *n = open_nets();
	int fds[NETS_MAX];
	int first;

	(void)ctx;
	size_t n_before = scratch_count_fds();
	CHILD_CHECK(nets_take(n, &first, NULL) == 0);
	nets_give(n, first);
	CHILD_CHECK(scratch_count_fds() == n_before + 1 + count_view_fds());
	rest();
	CHILD_CHECK(nets_take(n, &first, NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		CHILD_CHECK(nets_take(n, &fds[i], NULL) == 0);
	for (size_t i = 0; i + 2 < count_views(); i++)
		nets_give(n, fds[i]);
	CHILD_CHECK(scratch_count_fds() ==
		    n_before + 1 + NETS_MAX + (count_views() - 1) * count_view_fds());
	for (size_t i = count_views() - 2; i < ARRAY_SIZE(fds); i++)
		nets_give(n, fds[i]);
	nets_give(n, first); /* one too many, and long forgotten */
	CHILD_CHECK(nets_count(n) == NETS_MAX);
	CHILD_CHECK(scratch_count_fds() == n_before + NETS_MAX + count_views() * count_view_fds());
	nets_free(n);
	CHILD_CHECK(scratch_count_fds() == n_before - 1);
}

TEST(of_a_few_only_the_files_stay_open)
{
	IN_CHILD(fill_up, NULL);
}

static void send_something(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHILD_CHECK(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)) == 1);
}

static void fail_to_connect(void)
{
	CHILD_CHECK(connect_to("127.0.0.1", 9) == -ECONNREFUSED);
}

static const struct sockaddr_in6 lo6 = {
	.sin6_family = AF_INET6,
	.sin6_port = 9,
	.sin6_addr = IN6ADDR_LOOPBACK_INIT,
};

/* Sends nothing, but the route is counted, and can be asked when it was used. */
static void find_a_route(void)
{
	AUTO_FD fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&lo6, sizeof(lo6)) < 0)
		CHILD_SKIP("needs IPv6");
}

static int left_fd = -1;

static void leave_a_socket(void)
{
	left_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHILD_CHECK(left_fd >= 0);
}

static void open_and_close(void)
{
	(void)close(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	(void)close(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static const struct {
	void (*act)(void);
	bool leaves;
} rows[] = {
	{ send_something, true },
	{ fail_to_connect, true },
	{ leave_a_socket, true },
	{ find_a_route, true },
	{ open_and_close, false },
};

static void leave_traces(void *ctx)
{
	struct nets *n = open_nets();

	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd;

		CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && nets_enter(fd) == 0);
		rows[i].act();
		nets_leave(n);
		nets_give(n, fd);
		CHILD_CHECK(nets_count(n) == (rows[i].leaves ? 0 : 1));
		rest();
	}
	(void)close(left_fd);
	nets_free(n);
}

TEST(what_shows_a_trace_is_not_kept)
{
	IN_CHILD(leave_traces, NULL);
}

/* One that was given back, looked at and had again several times. */
static int take_an_old_one(struct nets *n)
{
	size_t n_before = scratch_count_fds();
	int fd;

	CHILD_CHECK(nets_take(n, &fd, NULL) == 0);
	ino_t number = number_of(fd);
	for (int i = 0; i < 3; i++) {
		nets_give(n, fd);
		CHILD_CHECK(nets_count(n) == 1);
		rest();
		CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && number_of(fd) == number);
		CHILD_CHECK(scratch_count_fds() == n_before + 1 + count_view_fds());
	}
	return fd;
}

/* As above, but its files were open all the time, and were read before. */
static void leave_traces_again(void *ctx)
{
	struct nets *n = open_nets();
	size_t n_before = scratch_count_fds();

	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd = take_an_old_one(n);

		CHILD_CHECK(nets_enter(fd) == 0);
		rows[i].act();
		nets_leave(n);
		nets_give(n, fd);
		CHILD_CHECK(nets_count(n) == (rows[i].leaves ? 0 : 1));
		close_fdp(&left_fd);
		CHILD_CHECK(!rows[i].leaves || scratch_count_fds() == n_before);
		rest();
	}
	nets_free(n);
}

TEST(what_shows_a_trace_is_not_kept_when_its_files_stayed_open)
{
	IN_CHILD(leave_traces_again, NULL);
}

static void mark(void *ctx)
{
	struct nets *n = open_nets();
	struct timespec marked;
	struct stat st;
	int fd;

	(void)ctx;
	CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && nets_enter(fd) == 0);
	CHILD_CHECK(chown("/proc/self/ns/net", (uid_t)-1, (gid_t)-1) == 0);
	nets_leave(n);
	CHILD_CHECK(fstat(fd, &st) == 0);
	marked = st.st_ctim;
	(void)usleep(20000);
	nets_give(n, fd);
	CHILD_CHECK(nets_count(n) == 1);
	rest();
	CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && nets_count(n) == 0 && fstat(fd, &st) == 0);
	CHILD_CHECK(memcmp(&marked, &st.st_ctim, sizeof(marked)) != 0);
	(void)close(fd);
	nets_free(n);
}

TEST(a_mark_on_the_namespace_itself_is_wiped)
{
	IN_CHILD(mark, NULL);
}

static void join_4(void)
{
	struct ip_mreqn group = { .imr_ifindex = 1 };
	AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	group.imr_multiaddr.s_addr = htonl(0xef010203);
	if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		CHILD_SKIP("needs multicast");
}

static void join_6(void)
{
	struct ipv6_mreq group = { .ipv6mr_interface = 1 };
	AUTO_FD fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHILD_CHECK(inet_pton(AF_INET6, "ff15::1234", &group.ipv6mr_multiaddr) == 1);
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		CHILD_SKIP("needs IPv6");
}

/* The kernel tells that a group was left when who was in it is gone, and nobody heeds one that
 * is still at rest. */
static void leave_late(void *ctx)
{
	static void (*const joins[])(void) = { join_4, join_6 };
	struct nets *n = open_nets();
	int other;

	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(joins); i++) {
		int fd;

		CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && nets_enter(fd) == 0);
		ino_t number = number_of(fd);
		joins[i]();
		nets_leave(n);
		nets_give(n, fd);
		CHILD_CHECK(nets_take(n, &other, NULL) == 0 && number_of(other) != number);
		(void)close(other);
		rest();
		CHILD_CHECK(nets_take(n, &other, NULL) == 0 && number_of(other) != number);
		CHILD_CHECK(nets_count(n) == 0);
		(void)close(other);
	}
	nets_free(n);
}

TEST(what_shows_a_trace_late_is_not_used_again)
{
	IN_CHILD(leave_late, NULL);
}

/* Well after the kernel's first word where its ticks are fast: not everybody is heard at once. */
static void take_early(void *ctx)
{
	struct nets *n = open_nets();
	int fd, other;

	(void)ctx;
	CHILD_CHECK(nets_take(n, &fd, NULL) == 0);
	ino_t number = number_of(fd);
	uint64_t given_ns = clock_monotonic_ns();
	nets_give(n, fd);
	(void)usleep(30000);
	CHILD_CHECK(nets_take(n, &other, NULL) == 0);
	CHILD_CHECK(number_of(other) != number ||
		    clock_monotonic_ns() - given_ns >= UINT64_C(50000000));
	(void)close(other);
	nets_free(n);
}

TEST(one_that_still_rests_is_not_used_again)
{
	IN_CHILD(take_early, NULL);
}

/* How long the route to 127.0.0.1 has not been used, in the kernel's ticks for users. */
static uint32_t ask_age_of_route(void)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		struct rtattr attr;
		uint32_t address;
	} ask = {
		.head = { sizeof(ask), RTM_GETROUTE, NLM_F_REQUEST, 1, 0 },
		.route = { .rtm_family = AF_INET, .rtm_dst_len = 32 },
		.attr = { RTA_LENGTH(4), RTA_DST },
		.address = htonl(INADDR_LOOPBACK),
	};
	AUTO_FD fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	_Alignas(struct nlmsghdr) char answer[4096];

	CHILD_CHECK(send(fd, &ask, sizeof(ask), 0) == (ssize_t)sizeof(ask));
	CHILD_CHECK(recv(fd, answer, sizeof(answer), 0) > 0);
	struct nlmsghdr *head = (struct nlmsghdr *)answer;
	size_t left = RTM_PAYLOAD(head);
	for (struct rtattr *a = RTM_RTA(NLMSG_DATA(head)); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == RTA_CACHEINFO)
			return ((struct rta_cacheinfo *)RTA_DATA(a))->rta_lastuse;
	child_fail(__FILE__, __LINE__, "no age");
}

static void use_a_route(void *ctx)
{
	struct nets *n = open_nets();
	int fd;
	cpu_set_t one;

	(void)ctx;
	CPU_ZERO(&one); /* each remembers its own */
	CPU_SET((size_t)sched_getcpu(), &one);
	CHILD_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && nets_enter(fd) == 0);
	ino_t number = number_of(fd);
	(void)ask_age_of_route();
	rest();
	CHILD_CHECK(ask_age_of_route() > 0);
	nets_leave(n);
	nets_give(n, fd);
	rest();
	CHILD_CHECK(nets_take(n, &fd, NULL) == 0 && nets_enter(fd) == 0);
	CHILD_CHECK(number_of(fd) == number && ask_age_of_route() == 0);
	nets_leave(n);
	(void)close(fd);
	nets_free(n);
}

TEST(routes_that_were_used_are_forgotten)
{
	IN_CHILD(use_a_route, NULL);
}

TESTS(UNIT(one_that_still_rests_is_not_used_again), UNIT(what_shows_a_trace_late_is_not_used_again),
	UNIT(routes_that_were_used_are_forgotten), UNIT(there_is_nothing_but_lo_and_it_works),
	UNIT(what_is_given_is_taken_again_and_not_all_is_kept),
	UNIT(who_may_open_little_keeps_little), UNIT(of_a_few_only_the_files_stay_open),
	UNIT(what_shows_a_trace_is_not_kept),
	UNIT(what_shows_a_trace_is_not_kept_when_its_files_stayed_open),
	UNIT(a_mark_on_the_namespace_itself_is_wiped))
