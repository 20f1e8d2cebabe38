/* No capability is left, and none can come back: not by executing a file
 * (no_new_privs, and an empty bounding set), not from the ambient set. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "box/box.h"
#include "box/caps.h"
#include "box/step.h"

static int drop_bounding_set(struct err *err)
{
	/* The kernel may know more capabilities than our headers: go on to its end. */
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL && cap > CAP_LAST_CAP)
			return 0;
		return err_errno(err, "drop capability %lu", cap);
	}
	return 0;
}

/* What the owner of a key may do, whether or not it is in a keyring of theirs. */
#define OWNER_ALL 0x3f3f0000ul

int caps_leave_keyring(const char *name, struct err *err)
{
	long key = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name);

	if (key < 0 && errno == ENOSYS)
		return 0; /* a kernel without keyrings has none to leave */
	if (key < 0)
		return err_errno(err, "leave the session keyring");
	/* Or the next who looks for the name would not find it. Who is in it already gets no
	 * number from the kernel. */
	if (name && key > 0 && syscall(SYS_keyctl, KEYCTL_SETPERM, key, OWNER_ALL) < 0 &&
		errno != EACCES)
		return err_errno(err, "open the session keyring to its owner");
	return 0;
}

int bounds_enter(struct step_context *c, struct err *err)
{
	int r = drop_bounding_set(err);

	if (r < 0)
		return r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_errno(err, "clear the ambient capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "set no_new_privs");
	/* A keyring for each box, where each is a user with a quota of its own. */
	return c->host->privileged ? caps_leave_keyring(NULL, err) : 0;
}

int caps_enter(struct step_context *c, struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	(void)c;
	if (syscall(SYS_capset, &head, none) < 0)
		return err_errno(err, "drop all capabilities");
	/* Init shares a uid with the guest: only being undumpable keeps the guest from
	 * tracing it or reading its memory. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, "become undumpable");
	return 0;
}
