/* Inside libbelljar: a sandbox lends connections to the tasks that execute. */
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "belljar.h"
#include "client/connection.h"

struct err;

#define IDLE_CONNECTIONS_MAX 16

struct belljar_sandbox {
	char *root;
	struct own_keeper own; /* pid 0: we use somebody else's */
	uint64_t facets;
	pthread_mutex_t lock;
	int idle[IDLE_CONNECTIONS_MAX];
	size_t n_idle;
};

/* A greeted connection for one execution. */
int sandbox_take_connection(struct belljar_sandbox *s, uint8_t *buffer, int *ret, struct err *err);

/* Back for the next one; only when nothing is outstanding on it. */
void sandbox_give_connection(struct belljar_sandbox *s, int fd);

/* Copy our kind of error into the public one; returns the code. */
int sandbox_report(struct belljar_error *error, const struct err *err, int code);
