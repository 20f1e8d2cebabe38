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

/* Processor time is reserved ahead, or whoever begins many runs at once would have them judged by
 * a day on which none of them counts yet. quota_check() reserves the most that its run can use.
 * The reservation stays until the run is freed, when the store counts what it used. So what is
 * under way together uses at most one run more than the day's time. */

/* Reserve it for what a predecessor of ours has accepted. */
void quota_reserve_cpu(struct run *run);

/* May this interpreter use processor time for `ms` more? If so it is reserved, until
 * quota_release_cpu(). Never calls back at once; `run` must stay until then. */
void quota_check_cpu(struct run *run, uint64_t ms, quota_cb *done, void *ctx);
/* Nothing is reserved any more. Also for a run that never had reserved anything. */
void quota_release_cpu(struct run *run);

/* Reserve room for a run's artifacts before they are kept: at most `wanted` bytes, less when the
 * user's quotas, beside what other runs of the user have reserved, leave less. A run that does not
 * fit waits until these other runs know what they keep: so it gets as much as if they had come one
 * after the other. */
typedef void quota_room_cb(void *ctx, uint64_t bytes);
void quota_reserve_artifacts(struct run *run, uint64_t wanted, quota_room_cb *done, void *ctx);
/* The run keeps this much. The reservation stays until the store counts it. */
void quota_settle_artifacts(struct run *run, uint64_t bytes);
/* The run is about to be freed: its end is stored, or never will be. */
void quota_release_artifacts(struct run *run);

/* Count a run that was accepted, what one used that is over, and what is removed of it. */
void quota_count_run(struct store_batch *b, const char *user, uint64_t now_ns);
void quota_count_end(struct store_batch *b, const struct run_row *row);
/* Processor time of a run that goes on; negative: it was counted, and will be with its end. */
void quota_count_cpu(struct store_batch *b, const char *user, int64_t cpu_us);
void quota_count_removed(struct store_batch *b, const struct run_row *row);
