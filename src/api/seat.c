#include "api/seat.h"

#include <errno.h>
#include <stdio.h>

#include "api/api.h"
#include "api/reply.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/settings.h"

/* One server per process. */
static LIST_HEAD(, seat) seats = LIST_HEAD_INITIALIZER(seats);

static void refuse(struct exchange *x, const char *quota, uint64_t limit)
{
	struct problem p = { 0 };

	(void)problem_set(&p, "quota_exceeded", "too many streams are open");
	problem_add(&p, "quota", json_string(quota));
	problem_add(&p, "limit", json_integer((json_int_t)limit));
	p.retry_after = 1;
	reply_problem(x, &p);
	problem_fini(&p);
}

int seat_take(struct exchange *x, const char *user_id, struct seat *ret)
{
	const struct settings *c = api_of(x)->settings;
	const struct seat *s;
	size_t n = 0;
	size_t n_own = 0;

	LIST_FOREACH(s, &seats, link)
	{
		n++;
		n_own += streq(s->user_id, user_id);
	}
	if (n >= c->ws_max_total) {
		refuse(x, "ws_connections", c->ws_max_total);
		return -EDQUOT;
	}
	if (n_own >= c->ws_max_per_user) {
		refuse(x, "ws_connections_per_user", c->ws_max_per_user);
		return -EDQUOT;
	}
	(void)snprintf(ret->user_id, sizeof(ret->user_id), "%s", user_id);
	LIST_INSERT_HEAD(&seats, ret, link);
	return 0;
}

void seat_leave(struct seat *s)
{
	LIST_REMOVE(s, link);
}
