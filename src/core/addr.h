/* Which addresses are out in the world, and which are ours: a server that fetches what a
 * stranger names must not be sent to its own network. */
#pragma once
#include <stdbool.h>

struct sockaddr;

/* False for loopback, link-local, private, shared, multicast, documentation and other special
 * addresses, also when one is wrapped in an IPv6 address, and for families beside the two. */
bool addr_is_public(const struct sockaddr *address);
