/* What several probes want to know about the host, looked up once; and the
 * programs which they ask, started all at once and early, so that the slowest of
 * them and not their sum is what one waits for. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include "probe/mountinfo.h"
#include "probe/probe.h"
#include "probe/tool.h"

/* Advice for a finding that failed for want of /proc. */
#define FIX_PROC "mount -t proc proc /proc"

/* For a plain user: root's keeper makes the boxes of that user, in a state directory of its own. */
#define FIX_ROOT_KEEPER                                                                            \
	"sudo belljar keeper --root /run/belljar-$(id -u) --uid $(id -u) &\n"                      \
	"export BELLJAR_ROOT=/run/belljar-$(id -u)"

struct host {
	struct utsname uts;
	uid_t uid;
	char user[64];       /* "" when /etc/passwd does not know the uid */
	bool is_privileged;  /* has CAP_SYS_ADMIN over what it is in */
	bool has_uids;       /* may become other users: the host's own root */
	uint64_t namespaces; /* CLONE_NEWUSER when that works, else 0 */
	int user_error;      /* why it does not, or 0 */
	char user_text[256]; /* the same in words */
	int mounts_error;    /* why `mounts` is empty, or 0 */
	struct mountinfo_table mounts;
	char cgroups[8192];     /* text of /proc/self/cgroup */
	struct tool_run *tools; /* what tool.c has started */
};

void host_open(struct host *h);
void host_fini(struct host *h);

/* Set a finding. What is printed may come from a file or a program: anything that
 * is not printable ASCII becomes '?'. */
void finding_set(struct finding *f, enum probe_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
