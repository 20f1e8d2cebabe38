/* A process that makes boxes for the keeper. Who is cloned inherits every descriptor, and the
 * keeper has hundreds: to close them again would be a good part of what a box costs. And while
 * the keeper clones, it serves nobody. So it has another do it ahead: a fork of itself that holds
 * nothing but a socket, and whose boxes are the keeper's own children. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct box;
struct box_host;
struct box_order;
struct err;

struct maker {
	pid_t pid;      /* 0: there is none */
	int control_fd; /* non-blocking; readable when there is an answer */
};

/* Start one. Single-threaded. */
int maker_start(const struct box_host *host, struct maker *ret, struct err *err);

/* Ask for the process of a box that was prepared (box_prepare()); `init_fd` stays the caller's.
 * -EAGAIN when it has more to do than it can be told. */
int maker_ask(const struct maker *m, const struct box_order *order, const struct box *box,
	int init_fd, struct err *err);

/* The answer that is due next. 1: `box` has its process; 0: there is no answer yet; -ECANCELED:
 * it could not be made, and `err` says why; if `box` has a process all the same, that was killed
 * and is to be reaped. Any other error: there will be no answer, and whether there is a process is
 * not known; but after -ECONNRESET there may be answers from before. `buffer` has FRAME_SIZE_MAX
 * bytes. */
int maker_hear(const struct maker *m, uint8_t *buffer, struct box *box, struct err *err);

/* It is asked for no more: maker_hear() waits for what is due, a moment at most, and fails after
 * the last. */
void maker_dismiss(const struct maker *m);

/* End it; its boxes stay. What it answered before can still be heard. */
void maker_kill(const struct maker *m);

/* Reap it after its end, which one that the kernel holds up may be late for; false while it still
 * lives, unless we `wait`. */
bool maker_reap(struct maker *m, bool wait);

/* Both, and wait for it; then close. */
void maker_fini(struct maker *m);
