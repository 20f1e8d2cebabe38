/* The captured files of one task, on their way below its directory: an unpack that also knows
 * which pattern found nothing, and how many files were left out and why. Owned by the execution. */
#pragma once
#include "ipc/pack.h"
#include "ipc/spec.h"
#include "ipc/unpack.h"

/* Files that matched and did not come. */
struct capture_loss {
	uint64_t n;
	char first[256]; /* the name of the first, cut to this size; else empty */
};

struct capture {
	struct unpack unpack; /* first: its sink is ours */
	struct pack_reader reader;
	char *const *globs; /* borrowed, end with NULL */
	bool has_match[SPEC_GLOBS_MAX];
	struct capture_loss skipped;    /* they passed the limit */
	struct capture_loss unreadable; /* the guest took the right to read them away */
	int (*begin)(struct pack_sink *sink, const struct pack_entry *e, struct err *err);
};

void capture_init(struct capture *c, int dir_fd, char *const *globs, uint64_t max_bytes);
void capture_fini(struct capture *c);

/* The first pattern that no file of the whole stream matched; NULL: none, or it was cut short. */
const char *capture_find_unmatched(const struct capture *c);
