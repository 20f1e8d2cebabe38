#include "keeper/orders.h"

#include "keeper/boxes.h"

void orders_add(struct orders *o, struct boxed *b)
{
	struct boxed **end = &o->first;

	while (*end)
		end = &(*end)->next;
	b->next = NULL;
	*end = b;
	o->n++;
}

struct boxed *orders_next(struct orders *o)
{
	struct boxed *b = o->first;

	if (b) {
		o->first = b->next;
		o->n--;
	}
	return b;
}
