/* What this host can enforce, found out by trying. Every probe is harmless and
 * leaves nothing behind: what it makes, it makes in a child in namespaces of its
 * own, or removes again. One that can not find out says so and why.
 *
 * Runs in the process of the command line, which must be single-threaded, as any
 * user, also where /proc or /sys are missing. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host;
struct probe;

enum probe_state {
	PROBE_OK,
	PROBE_PARTIAL, /* there, with something to know about it */
	PROBE_MISSING,
	PROBE_UNKNOWN,
};

/* What hangs on it. */
enum probe_severity {
	PROBE_REQUIRED, /* without it no box can be made */
	PROBE_LIMIT,    /* without it a limit is not enforced */
	PROBE_OPTIONAL, /* without it something else is absent */
};

const char *probe_state_name(enum probe_state s);
const char *probe_severity_name(enum probe_severity s);

#define PROBE_DETAIL_MAX 256

struct finding {
	enum probe_state state;
	char detail[PROBE_DETAIL_MAX]; /* one clause, printable ASCII */
	const char *fix;               /* better advice than the row's, or NULL */
};

typedef void probe_fn(const struct probe *self, const struct host *host, struct finding *ret);

struct probe {
	const char *name; /* unique */
	const char *group;
	enum probe_severity severity;
	uint64_t facets; /* not enforced when missing or unknown, as FACET_BIT()s */
	probe_fn *run;
	const void *with;  /* what `run` needs to know, if anything */
	const char *means; /* what its absence means for a run */
	const char *fix;   /* how to get it: a command or setting */
};

/* Every probe, in the order in which they are shown. */
extern const struct probe probes[];
extern const size_t probe_count;

#define PROBES_MAX 64

/* What came out. `findings` runs parallel to `probes`. */
struct checkup {
	char kernel[128];
	char user[64]; /* name, or "uid 1234" when it has none */
	unsigned uid;
	size_t n;
	struct finding findings[PROBES_MAX];
	bool can_run;          /* every required thing is there */
	uint64_t not_enforced; /* facets */
};

/* Run every probe. Takes well under a second, and not much more when programs that
 * it asks do not answer. */
void probe_all(struct checkup *ret);
