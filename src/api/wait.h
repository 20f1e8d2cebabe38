/* An answer that is held back until a run is over, or for a while. Every one is in a list of
 * the door, so that none is forgotten when the server ends. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct api;
struct exchange;
struct run;
struct wait;

/* Called once, on the loop: the run is over and stored, the time is, the client is gone, or the
 * server ends. `run` is there in any case. Answers. */
typedef void wait_cb(void *ctx, struct run *run);

/* Wait for at most `ms`; with 0 `done` is called at once. Takes the exchange's on_gone. */
void wait_start(struct exchange *x, struct run *run, uint64_t ms, wait_cb *done, void *ctx);

/* The server ends. */
void wait_end_all(struct api *api);
