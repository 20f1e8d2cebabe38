/* What the files about boxes share: boxes.c has one box, boxes_ahead.c those that wait. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "keeper/boxes.h"

/* boxes.c: lists of them. */
void boxed_push(struct boxed **list, struct boxed *b);
void boxed_unlink(struct boxed **list, const struct boxed *b);

/* boxes.c: one that has no process yet, its cgroup, and what to ask box_start() for. */
struct boxed *boxes_new(const struct root *root);
int boxes_make_group(
	struct keeper *k, const struct limits *limits, struct boxed *b, struct err *err);
struct box_order boxes_order_for(const struct boxed *b, uid_t uid);

/* boxes.c: try to be rid of so many retired boxes; those still dying stay. False when none is
 * left. */
bool boxes_bury(struct keeper *k, size_t max);

/* boxes_ahead.c: one that waits and suits; NULL when there is none. */
struct boxed *boxes_take_waiting(
	struct keeper *k, const struct root *root, const struct spec *spec);

/* boxes_ahead.c: retire all that wait. */
void boxes_forget_waiting(struct keeper *k);
