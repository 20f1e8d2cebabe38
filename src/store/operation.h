/* One call of the store on its way: what is asked for, checked and with copies of everything,
 * and what came of it. For the files of store/ only. Made by store.c, executed by a backend,
 * answered and freed on the loop's thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/row.h"
#include "store/selection.h"
#include "store/store.h"

enum change_kind {
	CHANGE_PUT,
	CHANGE_INSERT,
	CHANGE_DELETE,
	CHANGE_ADD,
	CHANGE_KINDS,
};

struct change {
	enum change_kind kind;
	const struct table *table;
	void *row;                   /* with CHANGE_DELETE and CHANGE_ADD only the key */
	const struct column *column; /* of CHANGE_ADD */
	int64_t delta;
};

struct store_batch {
	struct store *store;
	struct change *changes;
	size_t n_changes;
	size_t n_room;
	int r; /* -EINVAL: something in it makes no sense */
};

enum operation_kind {
	OPERATION_COMMIT,
	OPERATION_GET,
	OPERATION_LIST,
	OPERATION_SUM,
	OPERATION_KINDS,
};

struct operation {
	struct operation *next;
	struct store *store; /* the one that was asked, outside of any wrapper */
	enum operation_kind kind;
	bool is_patient; /* nobody is in a hurry for it */
	int r;
	void (*observe)(const struct operation *op); /* told before it is answered; or NULL */
	void *ctx;
	union {
		struct {
			struct store_batch *batch;
			store_done_cb *done; /* or NULL */
		} commit;
		struct {
			const struct table *table;
			void *key;
			void *row; /* the answer */
			store_row_cb *done;
		} get;
		struct {
			struct listing listing;
			struct rows rows; /* the answer, with ... */
			uint64_t total;
			store_rows_cb *done;
		} list;
		struct {
			struct summing summing;
			struct sum_group *groups; /* the answer; owned, with its texts */
			size_t n_groups;
			store_sums_cb *done;
		} sum;
	};
};

/* Tell the observer and the caller, and free. On the loop's thread. */
void operation_answer(struct operation *op);

/* Operations in the order they came in. Starts zeroed. */
struct operations {
	struct operation *first;
	struct operation *last;
};

void operations_add(struct operations *list, struct operation *op);
struct operation *operations_take_first(struct operations *list); /* NULL: it is empty */

/* Move all that is in `from` behind what is in `to`. */
void operations_move(struct operations *to, struct operations *from);
