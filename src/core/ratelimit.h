/* Token buckets for users or addresses. A bucket holds as many requests as one minute allows
 * and fills steadily. The table has a fixed size: one more key than it holds takes the place
 * of the fullest bucket nearby, which is the one that says least; so a stranger with many
 * addresses can neither grow it nor wash away those who are being slowed down. One thread. */
#pragma once
#include <stdint.h>

#include "base/cleanup.h"

struct ratelimit;

/* Keys whose buckets are known at once. */
#define RATELIMIT_KEYS 4096u

/* `per_minute` requests; 0: no limit. Aborts without memory. */
struct ratelimit *ratelimit_new(uint64_t per_minute);
void ratelimit_free(struct ratelimit *l);

/* One request of `key`. 0 when it may go on, else the seconds to wait, at least 1; a request
 * that has to wait costs nothing. `now_ns` is the monotonic clock. */
uint64_t ratelimit_take(struct ratelimit *l, const char *key, uint64_t now_ns);

DEFINE_CLEANUP(struct ratelimit, ratelimit_free)
