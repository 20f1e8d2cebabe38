#include "keeper/stock.h"

#define NS_PER_MS UINT64_C(1000000)

void stock_limit(struct stock *s, uint64_t bytes, uint64_t bytes_each)
{
	s->n_max = (size_t)(bytes / bytes_each);
}

void stock_count(struct stock *s, enum stock_image image, bool was_there, uint64_t now_ns)
{
	s->n_wanted = stock_wanted(s, now_ns);
	s->used_ns = now_ns;
	if (was_there) {
		s->tally[image].hits++;
		return;
	}
	s->tally[image].misses++;
	if (s->n_wanted < s->n_max)
		s->n_wanted++;
}

static bool is_idle(const struct stock *s, uint64_t now_ns)
{
	return now_ns - s->used_ns >= STOCK_IDLE_MS * NS_PER_MS;
}

size_t stock_wanted(const struct stock *s, uint64_t now_ns)
{
	size_t n = is_idle(s, now_ns) || s->n_wanted < STOCK_MIN ? STOCK_MIN : s->n_wanted;

	return n < s->n_max ? n : s->n_max;
}

size_t stock_most(const struct stock *s, uint64_t now_ns)
{
	return is_idle(s, now_ns) ? stock_wanted(s, now_ns) : s->n_max;
}

int stock_surplus_ms(const struct stock *s, uint64_t now_ns)
{
	uint64_t idle_ns = s->used_ns + STOCK_IDLE_MS * NS_PER_MS;

	if (s->n <= stock_wanted(s, idle_ns))
		return -1;
	return idle_ns <= now_ns ? 1 : (int)((idle_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}
