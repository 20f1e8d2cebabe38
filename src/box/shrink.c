/* Theory of operation. A program compares words of the call, some of them masked, with
 * constants. Run it with 0 for the first of them; each comparison tells up to which value
 * it would have come out the same; run it again with the value after that, and so on up
 * to the last: that gives ranges of values, each with what follows. What follows may
 * look at other words: these are found in the same way, inside. Equal decisions are the
 * same decision, so that it can be seen when two ranges lead to the same, and are one.
 *
 * Nothing is guessed: every value of every word that matters is in one of the ranges. A
 * program that is too much for the limits below stays as it is. */
#include "box/shrink.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "box/seccomp.h"
#include "box/writer.h"

#define STEPS_MAX     (1u << 18) /* instructions that are run to find out */
#define SUBJECTS_MAX  32u        /* words, each with each mask, on one way through */
#define DECISIONS_MAX 1024u
#define RANGES_MAX    8192u
#define NOTHING       UINT32_MAX /* in place of a decision: it can not be made */

/* Ranges fewer than this are asked one by one where that is shorter. */
#define CHAIN_MAX 9u

/* What is compared: a word of the call, masked. */
struct subject {
	uint32_t offset;
	uint32_t mask;
};

/* One that is being tried: the comparisons come out the same from `value` up to `last`. */
struct trial {
	struct subject subject;
	uint32_t value;
	uint32_t last;
};

/* Values from `first` up to the next range's lead to the decision `next`. */
struct range {
	uint32_t first;
	uint32_t next;
};

/* To answer, when there are no ranges; else to look at the subject. */
struct decision {
	uint32_t answer;
	struct subject subject;
	size_t ranges; /* index of the first */
	size_t n_ranges;
	size_t place; /* where it is written; 0: not yet */
};

struct shrink {
	const struct seccomp_program *program;
	unsigned n_steps;
	struct trial trials[SUBJECTS_MAX];
	size_t n_trials;
	struct decision decisions[DECISIONS_MAX];
	size_t n_decisions;
	struct range ranges[RANGES_MAX];
	size_t n_ranges;
	struct range drafts[RANGES_MAX]; /* of decisions that are being found out: a stack */
	size_t n_drafts;
	struct writer writer;
};

/* A comparison: whether the subject is from `low` to `high`, both included. */
struct test {
	struct subject subject;
	uint32_t low;
	uint32_t high;
	bool is_negated;
	bool is_never; /* nothing is in it */
};

/* All bits up to the highest in `mask`. */
static uint32_t fill_below(uint32_t mask)
{
	for (unsigned i = 1; i < 32; i *= 2)
		mask |= mask >> i;
	return mask;
}

/* Masks that leave out low bits only are ranges of the same subject. */
static struct test test_equal(uint32_t offset, uint32_t mask, uint32_t k)
{
	uint32_t filled = fill_below(mask);
	uint32_t low_bits = filled & ~mask;
	bool is_range = (low_bits & (low_bits + 1)) == 0;

	return (struct test){
		.subject = { offset, is_range ? filled : mask },
		.low = k,
		.high = is_range ? k | low_bits : k,
		.is_never = (k & ~mask) != 0,
	};
}

static struct test test_from(uint32_t offset, uint32_t mask, uint64_t low)
{
	return (struct test){
		.subject = { offset, mask },
		.low = (uint32_t)low,
		.high = UINT32_MAX,
		.is_never = low > UINT32_MAX,
	};
}

/* False for what is no comparison with a constant. */
static bool read_test(const struct sock_filter *f, struct subject a, struct test *ret)
{
	switch (f->code) {
	case BPF_JMP | BPF_JEQ | BPF_K:
		*ret = test_equal(a.offset, a.mask, f->k);
		return true;
	case BPF_JMP | BPF_JGT | BPF_K:
		*ret = test_from(a.offset, a.mask, (uint64_t)f->k + 1);
		return true;
	case BPF_JMP | BPF_JGE | BPF_K:
		*ret = test_from(a.offset, a.mask, f->k);
		return true;
	case BPF_JMP | BPF_JSET | BPF_K:
		*ret = test_equal(a.offset, a.mask & f->k, 0);
		ret->is_negated = true;
		return true;
	default:
		return false;
	}
}

static bool is_word(uint32_t offset)
{
	return offset % sizeof(uint32_t) == 0 &&
	       offset <= sizeof(struct seccomp_data) - sizeof(uint32_t);
}

static struct trial *find_trial(struct shrink *s, struct subject x)
{
	for (size_t i = 0; i < s->n_trials; i++) {
		struct trial *t = &s->trials[i];

		if (t->subject.offset == x.offset && t->subject.mask == x.mask)
			return t;
	}
	return NULL;
}

static void narrow(struct trial *t, uint32_t last)
{
	if (last < t->last)
		t->last = last;
}

static bool ask_trial(struct trial *t, const struct test *test)
{
	if (test->is_never)
		return test->is_negated;
	if (t->value < test->low)
		narrow(t, test->low - 1);
	else if (t->value <= test->high)
		narrow(t, test->high);
	return (t->value >= test->low && t->value <= test->high) != test->is_negated;
}

static bool is_same(const struct shrink *s, const struct decision *d, const struct decision *new,
	const struct range *ranges)
{
	return d->answer == new->answer && d->subject.offset == new->subject.offset &&
	       d->subject.mask == new->subject.mask &&
	       d->n_ranges ==
		       new->n_ranges &&memcmp(
			       &s->ranges[d->ranges], ranges, d->n_ranges * sizeof(*ranges)) == 0;
}

/* The decision that is like this one, be it there already or new. */
static uint32_t find_or_add(struct shrink *s, struct decision d, const struct range *ranges)
{
	for (size_t i = 0; i < s->n_decisions; i++)
		if (is_same(s, &s->decisions[i], &d, ranges))
			return (uint32_t)i;
	if (s->n_decisions == DECISIONS_MAX || d.n_ranges > RANGES_MAX - s->n_ranges)
		return NOTHING;
	d.ranges = s->n_ranges;
	memcpy(&s->ranges[d.ranges], ranges, d.n_ranges * sizeof(*ranges));
	s->n_ranges += d.n_ranges;
	s->decisions[s->n_decisions] = d;
	return (uint32_t)s->n_decisions++;
}

/* False when there is no room. */
static bool draft(struct shrink *s, size_t begin, uint32_t first, uint32_t next)
{
	if (s->n_drafts > begin && s->drafts[s->n_drafts - 1].next == next)
		return true;
	if (s->n_drafts == RANGES_MAX)
		return false;
	s->drafts[s->n_drafts++] = (struct range){ first, next };
	return true;
}

static uint32_t decide(struct shrink *s, size_t pc, struct subject a);

/* Every value that `x` can have, which the program compares first at `pc`. */
static uint32_t decide_by(struct shrink *s, size_t pc, struct subject a, struct subject x)
{
	size_t begin = s->n_drafts;
	struct trial *t = &s->trials[s->n_trials];

	if (s->n_trials == SUBJECTS_MAX)
		return NOTHING;
	s->n_trials++;
	*t = (struct trial){ .subject = x };
	for (uint64_t value = 0; value <= x.mask; value = (uint64_t)t->last + 1) {
		t->value = (uint32_t)value;
		t->last = UINT32_MAX;
		uint32_t next = decide(s, pc, a);
		if (next == NOTHING || !draft(s, begin, t->value, next))
			return NOTHING;
	}
	s->n_trials--;

	struct decision d = { .subject = x, .n_ranges = s->n_drafts - begin };
	uint32_t r = s->drafts[begin].next;
	if (d.n_ranges > 1)
		r = find_or_add(s, d, &s->drafts[begin]);
	s->n_drafts = begin;
	return r;
}

/* What the program does from `pc` on, having loaded `a`. Jumps only go forward, so this ends;
 * recursion is as deep as there are subjects. */
static uint32_t decide(struct shrink *s, size_t pc, struct subject a)
{
	while (pc < s->program->n_code && s->n_steps++ < STEPS_MAX) {
		const struct sock_filter *f = &s->program->code[pc];
		struct test test;

		if (f->code == (BPF_RET | BPF_K)) {
			return find_or_add(s, (struct decision){ .answer = f->k }, s->drafts);
		} else if (f->code == (BPF_LD | BPF_W | BPF_ABS) && is_word(f->k)) {
			a = (struct subject){ f->k, UINT32_MAX };
		} else if (f->code == (BPF_ALU | BPF_AND | BPF_K)) {
			a.mask &= f->k;
		} else if (f->code == (BPF_JMP | BPF_JA)) {
			pc += f->k;
		} else if (read_test(f, a, &test)) {
			struct trial *t = find_trial(s, test.subject);

			if (!t)
				return decide_by(s, pc, a, test.subject);
			pc += ask_trial(t, &test) ? f->jt : f->jf;
		} else {
			return NOTHING;
		}
		pc++;
	}
	return NOTHING;
}

static size_t put_decision(struct shrink *s, uint32_t i);

/* One value between two ranges that lead to the same; 0 when there is none. */
static size_t find_single(const struct range *ranges, size_t n)
{
	for (size_t i = 1; i + 1 < n; i++)
		if (ranges[i + 1].first == ranges[i].first + 1 &&
			ranges[i - 1].next == ranges[i + 1].next)
			return i;
	return 0;
}

/* Recursion is as deep as the tree: the logarithm of the number of ranges, and a few. */
static size_t put_tree(struct shrink *s, const struct range *ranges, size_t n)
{
	struct range others[CHAIN_MAX];
	size_t single = n <= CHAIN_MAX ? find_single(ranges, n) : 0;
	size_t half = n / 2;

	if (n == 1)
		return put_decision(s, ranges[0].next);
	if (single == 0) {
		size_t high = put_tree(s, ranges + half, n - half);
		size_t low = put_tree(s, ranges, half);

		return writer_put_jump(&s->writer, BPF_JGE, ranges[half].first, high, low);
	}
	memcpy(others, ranges, single * sizeof(*ranges));
	memcpy(others + single, ranges + single + 2, (n - single - 2) * sizeof(*ranges));
	size_t yes = put_decision(s, ranges[single].next);
	size_t no = put_tree(s, others, n - 2);
	return writer_put_jump(&s->writer, BPF_JEQ, ranges[single].first, yes, no);
}

static size_t put_decision(struct shrink *s, uint32_t i)
{
	struct decision *d = &s->decisions[i];
	struct writer *w = &s->writer;

	if (w->full)
		return 0;
	if (d->n_ranges == 0)
		return writer_put_return(w, d->answer);
	if (d->place != 0)
		return d->place;
	(void)writer_put_goto(w, put_tree(s, &s->ranges[d->ranges], d->n_ranges));
	if (d->subject.mask != UINT32_MAX)
		(void)writer_put(w, BPF_ALU | BPF_AND | BPF_K, d->subject.mask);
	d->place = writer_put(w, BPF_LD | BPF_W | BPF_ABS, d->subject.offset);
	return d->place;
}

bool shrink_program(struct seccomp_program *p)
{
	AUTO_FREE struct shrink *s = xnew(struct shrink);
	AUTO_FREE struct sock_filter *code = xcalloc(BPF_MAXINSNS, sizeof(*code));

	s->program = p;
	s->writer = (struct writer){ .code = code, .at = BPF_MAXINSNS };
	uint32_t first = decide(s, 0, (struct subject){ 0 });
	if (first == NOTHING)
		return false;
	(void)writer_put_goto(&s->writer, put_decision(s, first));
	size_t at = s->writer.at;
	if (s->writer.full || BPF_MAXINSNS - at >= p->n_code)
		return false;
	p->n_code = BPF_MAXINSNS - at;
	memcpy(p->code, code + at, p->n_code * sizeof(*code));
	return true;
}
