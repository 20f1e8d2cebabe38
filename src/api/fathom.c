/* WS /ws: the way to the Fathom door. Credentials were looked at as everywhere; which version of
 * the protocol is spoken is agreed upon here. */
#include "fathom/fathom.h"

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/reply.h"
#include "api/seat.h"
#include "base/str.h"

/* Is the version among those the header lists? "1", "1.0" and "2, 1" have it. */
static bool speaks(const char *versions)
{
	for (const char *at = versions; *at;) {
		at += strspn(at, ", \t");
		size_t size = strcspn(at, ", \t");

		if ((size == 1 && memcmp(at, FATHOM_VERSION, 1) == 0) ||
			(size == 3 && memcmp(at, FATHOM_VERSION ".0", 3) == 0))
			return true;
		at += size;
	}
	return false;
}

static void on_left(void *ctx)
{
	seat_leave(ctx);
	free(ctx);
}

static void handle_ws(struct exchange *x)
{
	const char *versions = exchange_header(x, "x-protocol-version");
	struct seat *seat;

	exchange_set_header(x, "X-Protocol-Version", FATHOM_VERSION);
	if (versions && !speaks(versions)) {
		exchange_set_header(x, "Upgrade", "websocket");
		reply_refusal(x, "protocol_version_unsupported",
			"X-Protocol-Version: only version " FATHOM_VERSION " is spoken here");
		return;
	}
	seat = xnew(struct seat);
	if (seat_take(x, api_who(x)->user_id, seat) < 0) {
		free(seat);
		return;
	}
	struct fathom_visitor visitor = {
		.who = api_who(x),
		.trace_id = api_trace_id(x),
		.left = on_left,
		.ctx = seat,
	};
	fathom_accept(api_of(x)->fathom, x, &visitor);
}

const struct route routes_fathom[] = {
	{ "WS", "/ws", ACCESS_USER, BODY_NONE, 0, handle_ws },
	{ 0 },
};
