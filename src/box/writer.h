/* Filter programs, written from their end to their beginning: jumps go forward only, so
 * whatever one leads to is there already. Places are indices into `code`. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sock_filter;

/* Returns that are shared. A program seldom has more than a few answers. */
#define WRITER_RETURNS_MAX 8u

struct writer {
	struct sock_filter *code;
	size_t at; /* the first that is written: before that, where it ends */
	bool full; /* there was no room: what is written is of no use */
	size_t returns[WRITER_RETURNS_MAX]; /* the latest of each answer */
	unsigned n_returns;
};

/* Each returns where it begins. */
size_t writer_put(struct writer *w, uint16_t code, uint32_t k);
size_t writer_put_return(struct writer *w, uint32_t answer);

/* Go to what is written at `target`, unless that comes next anyway. */
size_t writer_put_goto(struct writer *w, size_t target);

/* `test` (BPF_JEQ, BPF_JGE ...) against `k`, with both ways already written. */
size_t writer_put_jump(struct writer *w, uint16_t test, uint32_t k, size_t yes, size_t no);
