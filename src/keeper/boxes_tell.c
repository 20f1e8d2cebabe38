/* What is said about the boxes that wait, to those who asked for them. */
#include "base/clock.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "keeper/boxes.h"
#include "keeper/keeper_private.h"

/* It changes with each run, and is told no more often than this: each time wakes a server up. */
#define TELL_MS 250u

static void describe(const struct keeper *k, struct warm_state *ret)
{
	*ret = (struct warm_state){
		.boxes = k->ready.tally[STOCK_HOST],
		.imported = k->ready.tally[STOCK_IMPORTED],
		.clones = k->clones.tally[STOCK_HOST],
	};
	for (const struct boxed *b = k->making.orders.first; b; b = b->next) {
		if (b->root && boxes_image_of(b->root) == STOCK_IMPORTED)
			ret->imported.making++;
		else
			ret->boxes.making++;
	}
	ret->clones.making = templates_orders(k)->n;
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
