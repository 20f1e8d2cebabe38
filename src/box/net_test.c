#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "box/step.h"
#include "lib/child.h"
#include "lib/test.h"

static int connect_to(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHILD_CHECK(fd >= 0 && inet_pton(AF_INET, address, &to.sin_addr) == 1);
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

static void enter(void *ctx)
{
	struct step_context c = { 0 };
	struct err err = { 0 };
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t size = sizeof(any);
	char name[64];

	(void)ctx;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWUTS) < 0)
		CHILD_SKIP("needs user namespaces");
	CHILD_CHECK(connect_to("127.0.0.1", 9) == -ENETUNREACH);
	if (net_enter(&c, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);

	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
	CHILD_CHECK(gethostname(name, sizeof(name)) == 0 && strcmp(name, "box") == 0);
}

TEST(there_is_nothing_but_lo_and_it_works)
{
	IN_CHILD(enter, NULL);
}

TESTS(UNIT(there_is_nothing_but_lo_and_it_works))
