/* For the tests of the server: handlers that tell of a request, or let it wait. */
#pragma once
#include <stdatomic.h>

#include "http/sample.h"
#include "lib/test.h"

#define HOST "Host: x\r\n"

static atomic_int n_gone;
static atomic_int n_released;

/* Everything that a request says about itself. */
static inline void handle_tell(struct exchange *x)
{
	const char *custom = exchange_header(x, "x-custom");
	const char *q = exchange_query(x, "q");
	const char *name = "";
	const char *value = "";
	bool has_second = exchange_query_at(x, 1, &name, &value);

	exchange_reply_json(x, 200,
		json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*, s:s*, s:s}", "method",
			exchange_method(x), "path", exchange_path(x), "id", exchange_param(x, "id"),
			"raw", exchange_param_raw(x, "id"), "custom", custom, "q", q, "second",
			has_second ? value : NULL, "peer", exchange_peer(x)));
}

/* Those who are answered later wait here, in the order they came. */
static struct exchange *waiting[8];
static size_t n_waiting;

static inline void on_gone(struct exchange *x, void *ctx)
{
	(void)ctx;
	n_gone++;
	CHECK(exchange_is_gone(x));
	for (size_t i = 0; i < n_waiting; i++)
		if (waiting[i] == x)
			waiting[i] = waiting[--n_waiting];
	exchange_reply_bytes(x, 200, NULL, NULL, 0); /* goes nowhere */
}

static inline void on_release(void *data)
{
	(void)data;
	n_released++;
}

static inline void handle_wait(struct exchange *x)
{
	exchange_on_gone(x, on_gone, NULL);
	exchange_set_data(x, waiting, on_release);
	waiting[n_waiting++] = x;
}

static inline void wait_for(struct sample *s, size_t n)
{
	for (int i = 0; i < 1000 && *(volatile size_t *)&n_waiting != n; i++)
		(void)usleep(5000);
	(void)s;
	CHECK_EQ(n_waiting, n);
}
