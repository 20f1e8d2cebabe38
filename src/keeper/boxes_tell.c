/* What is said about the boxes that wait, to those who asked for them. */
#include <stdio.h>

#include "base/clock.h"
#include "box/root.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "keeper/boxes.h"
#include "keeper/keeper_private.h"

/* It changes with each run, and is told no more often than this: each time wakes a server up. */
#define TELL_MS 250u

static void describe_stock(const struct stock *s, struct warm_stock *ret)
{
	ret->waiting = s->n;
	ret->hits = s->n_hits;
	ret->misses = s->n_misses;
	ret->made = s->n_made;
	ret->made_us = s->made_ns / 1000;
}

static void describe(const struct keeper *k, struct warm_state *ret)
{
	*ret = (struct warm_state){ 0 };
	describe_stock(&k->ready, &ret->boxes);
	describe_stock(&k->clones, &ret->clones);
	ret->boxes.making = k->making.orders.n;
	ret->clones.making = templates_orders(k)->n;
	(void)snprintf(
		ret->image, sizeof(ret->image), "%s", k->favourite ? k->favourite->image : "host");
}

static bool has_news(const struct keeper *k)
{
	struct warm_state now;

	describe(k, &now);
	return !warm_state_is_same(&now, &k->told);
}

int boxes_news_ms(const struct keeper *k)
{
	uint64_t ms = (clock_monotonic_ns() - k->told_ns) / 1000000;

	if (!has_news(k))
		return -1;
	return ms < TELL_MS ? (int)(TELL_MS - ms) : 0;
}

void boxes_tell(struct keeper *k)
{
	struct put p;

	if (boxes_news_ms(k) != 0)
		return;
	describe(k, &k->told);
	k->told_ns = clock_monotonic_ns();
	put_init(&p, 4096);
	warm_state_put(&k->told, &p);
	/* One that does not read misses news, no more. */
	for (const struct peer *peer = k->peers; peer; peer = peer->next) {
		if (peer->hears_warmth)
			(void)frame_send(peer->watch.fd, MESSAGE_WARMTH, &p, NULL, 0);
	}
	put_fini(&p);
}
