/* What a user may use: how many runs wait, processor time and artifacts per day, artifacts in
 * all. Counted in the store, with the runs themselves. */
#pragma once
#include <stdint.h>

struct problem;
struct run;
struct run_row;
struct service;
struct store_batch;

/* May this run be accepted? `problem->status` is 0 if so. May call back at once. */
typedef void quota_cb(void *ctx, struct problem *problem);
void quota_check(struct run *run, quota_cb *done, void *ctx);

/* May this user still use processor time today? Never calls back at once. */
void quota_check_cpu(struct service *s, const char *user, quota_cb *done, void *ctx);

/* How many bytes of artifacts the run's user may still keep. */
typedef void quota_room_cb(void *ctx, uint64_t left);
void quota_artifact_room(struct run *run, quota_room_cb *done, void *ctx);

/* Count a run that was accepted, what one used that is over, and what is removed of it. */
void quota_count_run(struct store_batch *b, const char *user, uint64_t now_ns);
void quota_count_end(struct store_batch *b, const struct run_row *row);
/* Processor time of a run that goes on; negative: it was counted, and will be with its end. */
void quota_count_cpu(struct store_batch *b, const char *user, int64_t cpu_us);
void quota_count_removed(struct store_batch *b, const struct run_row *row);
