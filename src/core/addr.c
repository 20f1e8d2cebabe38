#include "core/addr.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"

struct block {
	uint8_t prefix[16];
	unsigned bits;
};

/* The registries of special-purpose addresses (RFC 6890 and its kin). */
static const struct block special_v4[] = {
	{ { 0 }, 8 },
	{ { 10 }, 8 },
	{ { 100, 64 }, 10 },
	{ { 127 }, 8 },
	{ { 169, 254 }, 16 },
	{ { 172, 16 }, 12 },
	{ { 192, 0, 0 }, 24 },
	{ { 192, 0, 2 }, 24 },
	{ { 192, 88, 99 }, 24 },
	{ { 192, 168 }, 16 },
	{ { 198, 18 }, 15 },
	{ { 198, 51, 100 }, 24 },
	{ { 203, 0, 113 }, 24 },
	{ { 224 }, 4 },
	{ { 240 }, 4 },
};

/* Of IPv6 only 2000::/3 is in use at all; these are the exceptions in it. */
static const struct block global_v6 = { { 0x20 }, 3 };
static const struct block special_v6[] = {
	{ { 0x20, 0x01, 0x00, 0x00 }, 23 }, /* protocols, Teredo among them */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 },
	{ { 0x3f, 0xff, 0x00 }, 20 },
};

/* An IPv4 address stands in these, at this byte. */
static const struct wrapper {
	struct block block;
	size_t at;
} wrappers[] = {
	{ { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff }, 96 }, 12 },
	{ { { 0x00, 0x64, 0xff, 0x9b }, 96 }, 12 },
	{ { { 0x20, 0x02 }, 16 }, 2 },
};

static bool is_in(const uint8_t *address, const struct block *block)
{
	unsigned whole = block->bits / 8;
	unsigned rest = block->bits % 8;

	if (memcmp(address, block->prefix, whole) != 0)
		return false;
	return rest == 0 || (address[whole] ^ block->prefix[whole]) >> (8 - rest) == 0;
}

static bool is_public_v4(const uint8_t *address)
{
	for (size_t i = 0; i < ARRAY_SIZE(special_v4); i++)
		if (is_in(address, &special_v4[i]))
			return false;
	return true;
}

static bool is_public_v6(const uint8_t *address)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (is_in(address, &wrappers[i].block))
			return is_public_v4(address + wrappers[i].at);
	for (size_t i = 0; i < ARRAY_SIZE(special_v6); i++)
		if (is_in(address, &special_v6[i]))
			return false;
	return is_in(address, &global_v6);
}

bool addr_is_public(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)address;

		return is_public_v4((const uint8_t *)&v4->sin_addr);
	}
	if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)address;

		return is_public_v6(v6->sin6_addr.s6_addr);
	}
	return false;
}
