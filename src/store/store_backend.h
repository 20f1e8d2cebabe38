/* For the files of store/ only: what a backend is, and what passes through it.
 *
 * store.c turns each call into one operation, checked and with copies of everything, and
 * submits it. A backend executes operations in the order they came in and hands them back to
 * the loop through a post, which calls what is to be called and frees them. A wrapper looks
 * at an operation and submits it to the store behind it. */
#pragma once
#include <stdbool.h>

#include "store/operation.h"
#include "store/store.h"

struct err;

struct store {
	const struct store_ops *ops;
	struct store *inner; /* what a wrapper stands in front of, or NULL */
	int health;
	bool is_closing;
};

struct store_ops {
	const char *name; /* what a URL begins with, before the first colon */

	/* `rest` is what stands behind the colon. 0 with a store, or a negative errno. */
	int (*open)(uv_loop_t *loop, const char *rest, bool full_sync, struct store **ret,
		struct err *err);

	/* Answer everything that was submitted, and release. */
	void (*free)(struct store *s);

	/* Takes the operation. One whose `r` is not 0 is to be answered with that when its
	 * turn comes, and not to be executed. */
	void (*submit)(struct store *s, struct operation *op);
};

extern const struct store_ops store_memory;
extern const struct store_ops store_sqlite;
extern const struct store_ops store_trace;
extern const struct store_ops store_fault;
