#include "box/writer.h"

#include <linux/filter.h>

/* A conditional jump reaches 255 instructions ahead; keep some room for those that
 * are put before it. */
#define REACH 250u

static size_t put(struct writer *w, struct sock_filter f)
{
	if (w->at == 0) {
		w->full = true;
		return 0;
	}
	w->code[--w->at] = f;
	return w->at;
}

size_t writer_put(struct writer *w, uint16_t code, uint32_t k)
{
	return put(w, (struct sock_filter)BPF_STMT(code, k));
}

static size_t put_ja(struct writer *w, size_t target)
{
	return writer_put(w, BPF_JMP | BPF_JA, (uint32_t)(target - w->at));
}

size_t writer_put_goto(struct writer *w, size_t target)
{
	return target == w->at ? target : put_ja(w, target);
}

static size_t near(struct writer *w, size_t target)
{
	return target - w->at <= REACH ? target : put_ja(w, target);
}

size_t writer_put_jump(struct writer *w, uint16_t test, uint32_t k, size_t yes, size_t no)
{
	yes = near(w, yes);
	no = near(w, no);
	if (w->full)
		return 0;
	uint8_t jt = (uint8_t)(yes - w->at);
	uint8_t jf = (uint8_t)(no - w->at);
	return put(w, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, k, jt, jf));
}

size_t writer_put_return(struct writer *w, uint32_t answer)
{
	unsigned i = 0;

	while (i < w->n_returns && w->code[w->returns[i]].k != answer)
		i++;
	if (i < w->n_returns && w->returns[i] - w->at <= REACH / 2)
		return w->returns[i];

	size_t made = writer_put(w, BPF_RET | BPF_K, answer);
	if (i == WRITER_RETURNS_MAX)
		return made;
	w->returns[i] = made;
	if (i == w->n_returns)
		w->n_returns++;
	return made;
}
