/* WebSockets that are open, whatever they are for: each takes a seat, of which there are so many
 * for all and for one user. */
#pragma once
#include <sys/queue.h>

#include "core/identity.h"

struct exchange;

struct seat {
	LIST_ENTRY(seat) link;
	char user_id[IDENTITY_USER_ID_MAX + 1];
};

/* Take one for `user_id`; -EDQUOT when there is none, which it has answered. */
int seat_take(struct exchange *x, const char *user_id, struct seat *ret);
void seat_leave(struct seat *s);
