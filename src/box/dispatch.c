#include "box/dispatch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/seccomp.h"
#include "box/writer.h"

/* On x86-64, numbers from here on are x32's. Elsewhere there are none. */
#define X32_BIT 0x40000000u

/* Numbers from `first` up to the next range's. */
struct range {
	uint32_t first;
	uint32_t answer;
};

/* What the number alone does not decide goes on at `rest`. Recursion is as deep as the
 * tree: the logarithm of the number of ranges. */
static size_t put_tree(struct writer *w, size_t rest, const struct range *ranges, size_t n)
{
	size_t half = n / 2;

	if (n == 1 && ranges[0].answer == DISPATCH_REST)
		return rest;
	if (n == 1)
		return writer_put_return(w, ranges[0].answer);
	size_t high = put_tree(w, rest, ranges + half, n - half);
	size_t low = put_tree(w, rest, ranges, half);
	return writer_put_jump(w, BPF_JGE, ranges[half].first, high, low);
}

static void put_front(struct writer *w, uint32_t arch, const struct range *ranges, size_t n)
{
	size_t rest = w->at;

	/* The tree's root is the last that was written, unless it is a mere leaf. */
	(void)writer_put_goto(w, put_tree(w, rest, ranges, n));
	(void)writer_put_jump(w, BPF_JGE, X32_BIT, rest, w->at);
	(void)writer_put(w, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	(void)writer_put_jump(w, BPF_JEQ, arch, w->at, rest);
	(void)writer_put(w, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
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
	if (p->n_code > 0)
		memcpy(code + w.at, p->code, p->n_code * sizeof(*code));
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
