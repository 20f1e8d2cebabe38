/* One thing done to the files of a session, in a box of its own that executes no guest:
 * files go in, all of them or none, or files come out. Errands of a session are run one after
 * the other. While the session is marked, each makes good first what a restore left half done. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "core/feeder.h"

struct errand;
struct inventory;
struct session;

struct errand_plan {
	feeder_fn *feed; /* writes a whole pack stream; NULL: nothing goes in */
	void *feed_ctx;
	bool clears;          /* what was there goes */
	int capture_fd;       /* a file that gets everything there is; taken; -1 for none */
	const char *only;     /* ... or gets only the file of this path; NULL: everything */
	uint64_t capture_max; /* bytes of files, and of the stream that they come in */
	struct inventory
		*listing; /* gets what is in the workspace, and nothing else is done; NULL */
	bool digests;     /* ... with the SHA-256 of files */
};

/* `r` is 0, -ECONNRESET when the keeper is gone, or of what went in: -ENOSPC when the workspace can
 * not hold it, or what `feed` returned; or of what comes out, which is all of it or a failure:
 * -EFBIG for more than capture_max, and the other codes of files_send_out(). `text` says it in
 * words. `n_bytes` came out. */
typedef void errand_cb(void *ctx, int r, const char *text, uint64_t n_bytes);

/* `done` may end the session, but does not free it before it returned. */
void errand_start(
	struct session *session, const struct errand_plan *plan, errand_cb *done, void *ctx);

/* The session ends: what waits is told -ECANCELED, and what is under way is hurried; the
 * session must wait for it. */
void errand_cancel_all(struct session *session);

/* The service ends, and no thread works for it any more: all are told -ECANCELED. */
void errand_forget_all(struct session *session);
