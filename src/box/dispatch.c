#include "box/dispatch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/seccomp.h"

/* On x86-64, numbers from here on are x32's. Elsewhere there are none. */
#define X32_BIT 0x40000000u

/* A conditional jump reaches 255 instructions ahead; keep some room for those that
 * are put before it. */
#define REACH 250u

/* Returns that are shared. A program seldom has more than a few answers. */
#define RETURNS_MAX 8u

/* The program is written from its end to its beginning: jumps go forward only, so
 * whatever one leads to is there already. */
struct writer {
	struct sock_filter *code; /* BPF_MAXINSNS of them */
	size_t at;                /* the first that is written */
	size_t rest;              /* where the program begins that we stand before */
	bool full;
	size_t returns[RETURNS_MAX]; /* the latest of each answer */
	unsigned n_returns;
};

/* Numbers from `first` up to the next range's. */
struct range {
	uint32_t first;
	uint32_t answer;
};

static size_t put(struct writer *w, struct sock_filter f)
{
	if (w->at == 0) {
		w->full = true;
		return 0;
	}
	w->code[--w->at] = f;
	return w->at;
}

static size_t put_ja(struct writer *w, size_t target)
{
	uint32_t distance = (uint32_t)(target - w->at);

	return put(w, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, distance));
}

static size_t near(struct writer *w, size_t target)
{
	return target - w->at <= REACH ? target : put_ja(w, target);
}

/* `test` (JEQ, JGE ...) against `k`, with both ways already written. */
static size_t put_jump(struct writer *w, uint16_t test, uint32_t k, size_t yes, size_t no)
{
	yes = near(w, yes);
	no = near(w, no);
	if (w->full)
		return 0;
	uint8_t jt = (uint8_t)(yes - w->at);
	uint8_t jf = (uint8_t)(no - w->at);
	return put(w, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, k, jt, jf));
}

static size_t put_return(struct writer *w, uint32_t answer)
{
	unsigned i = 0;

	if (answer == DISPATCH_REST)
		return w->rest;
	while (i < w->n_returns && w->code[w->returns[i]].k != answer)
		i++;
	if (i < w->n_returns && w->returns[i] - w->at <= REACH / 2)
		return w->returns[i];

	size_t made = put(w, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
	if (i == RETURNS_MAX)
		return made;
	w->returns[i] = made;
	if (i == w->n_returns)
		w->n_returns++;
	return made;
}

/* Recursion is as deep as the tree: the logarithm of the number of ranges. */
static size_t put_tree(struct writer *w, const struct range *ranges, size_t n)
{
	size_t half = n / 2;

	if (n == 1)
		return put_return(w, ranges[0].answer);
	size_t high = put_tree(w, ranges + half, n - half);
	size_t low = put_tree(w, ranges, half);
	return put_jump(w, BPF_JGE, ranges[half].first, high, low);
}

static void put_front(struct writer *w, uint32_t arch, const struct range *ranges, size_t n)
{
	size_t tree = put_tree(w, ranges, n);

	/* The tree's root is the last that was written, unless it is a mere leaf. */
	if (tree != w->at)
		(void)put_ja(w, tree);
	(void)put_jump(w, BPF_JGE, X32_BIT, w->rest, w->at);
	(void)put(w, (struct sock_filter)BPF_STMT(
			     BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	(void)put_jump(w, BPF_JEQ, arch, w->at, w->rest);
	(void)put(w, (struct sock_filter)BPF_STMT(
			     BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
}

static size_t find_ranges(const uint32_t *answers, size_t n_answers, struct range *ranges)
{
	size_t n = 0;

	for (size_t i = 0; i < n_answers; i++) {
		if (i == 0 || answers[i] != answers[i - 1])
			ranges[n++] = (struct range){ (uint32_t)i, answers[i] };
	}
	return n;
}

int dispatch_prepend(struct seccomp_program *p, uint32_t arch, const uint32_t *answers,
	size_t n_answers, struct err *err)
{
	AUTO_FREE struct sock_filter *code = calloc(BPF_MAXINSNS, sizeof(*code));
	AUTO_FREE struct range *ranges = calloc(n_answers, sizeof(*ranges));

	if (!code || !ranges)
		return err_set(err, -ENOMEM, "out of memory");
	if (n_answers == 0 || p->n_code > BPF_MAXINSNS)
		return err_set(err, -EINVAL, "no answers, or a program too large already");
	struct writer w = { .code = code, .at = BPF_MAXINSNS - p->n_code };
	w.rest = w.at;
	if (p->n_code > 0)
		memcpy(code + w.rest, p->code, p->n_code * sizeof(*code));
	put_front(&w, arch, ranges, find_ranges(answers, n_answers, ranges));
	if (w.full)
		return err_set(
			err, -E2BIG, "the rules make more than %d instructions", BPF_MAXINSNS);

	size_t n_code = BPF_MAXINSNS - w.at;
	memmove(code, code + w.at, n_code * sizeof(*code));
	free(p->code);
	p->code = TAKE(code);
	p->n_code = n_code;
	return 0;
}
