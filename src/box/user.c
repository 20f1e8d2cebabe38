/* The user namespace maps one user and one group. Root is not mapped, so nothing
 * in the box can become it, whatever file it executes. */
#include "box/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "box/box.h"
#include "box/step.h"
#include "ipc/spec.h"

#define OOM_SCORE "500"

static int write_map(const char *path, unsigned inside, unsigned outside, struct err *err)
{
	char line[64];

	(void)snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
	int r = fd_write_text(AT_FDCWD, path, line);
	return r < 0 ? err_set(err, r, "write %s", path) : 0;
}

/* The kernel wants setgroups to be denied for this; the keeper dropped its supplementary
 * groups at start, where it could. */
int user_map_self(uid_t uid_inside, uid_t uid, gid_t gid_inside, gid_t gid, struct err *err)
{
	int r = fd_write_text(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r < 0)
		return err_set(err, r, "deny setgroups");
	r = write_map("/proc/self/uid_map", uid_inside, uid, err);
	return r < 0 ? r : write_map("/proc/self/gid_map", gid_inside, gid, err);
}

int user_enter(struct step_context *c, struct err *err)
{
	unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	/* The keeper's change of user made this memory undumpable, and then the files
	 * in /proc/self belong to root. caps_enter() takes it back. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return err_errno(err, "become dumpable");
	if (mount("proc", "/proc", "proc", flags, NULL) < 0)
		return err_errno(err, "mount /proc");
	/* No help from the keeper is needed, nor a round trip to it. */
	int r = user_map_self(BOX_UID, c->uid, BOX_GID, c->gid, err);
	if (r < 0)
		return r;
	/* A host out of memory should take a box before anything else; and whatever
	 * protection the keeper has must not be inherited. */
	r = fd_write_text(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE);
	if (r < 0)
		return err_set(err, r, "write oom_score_adj");
	/* Also away from the real and saved ids of the keeper. */
	if (setresgid(BOX_GID, BOX_GID, BOX_GID) < 0 || setresuid(BOX_UID, BOX_UID, BOX_UID) < 0)
		return err_errno(err, "become uid %u", BOX_UID);
	return 0;
}
