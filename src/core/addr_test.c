#include "core/addr.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "lib/test.h"

static bool is_public(const char *text)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return addr_is_public((struct sockaddr *)&v4);
	CHECK_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return addr_is_public((struct sockaddr *)&v6);
}

TEST(special_addresses_are_known)
{
	static const char *const special[] = { "0.0.0.0", "10.1.2.3", "100.64.0.1",
		"100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
		"172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
		"239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "fe80::1",
		"fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "2001::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
		"2002:7f00:1::", "2002:a00:1::", "3fff::1", "100::1", "4000::1" };

	for (size_t i = 0; i < ARRAY_SIZE(special); i++)
		if (is_public(special[i]))
			fail_msg("%s passed", special[i]);
}

TEST(others_are_public)
{
	static const char *const others[] = { "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1",
		"172.15.0.1", "172.32.0.1", "192.0.1.1", "192.167.1.1", "198.17.0.1", "198.20.0.1",
		"223.255.255.255", "2606:4700::1", "2a00:1450::1", "2001:4860::1", "::ffff:8.8.8.8",
		"64:ff9b::808:808", "2002:808:808::" };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!is_public(others[i]))
			fail_msg("%s did not pass", others[i]);
}

TEST(other_families_are_not_public)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	CHECK(!addr_is_public((struct sockaddr *)&un));
}

TESTS(UNIT(special_addresses_are_known), UNIT(others_are_public),
	UNIT(other_families_are_not_public))
