#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/err.h"
#include "box/box.h"
#include "box/step.h"
#include "lib/child.h"
#include "lib/test.h"

/* The value of a line in /proc/self/status, as a hexadecimal number. */
static unsigned long long status_of(const char *name)
{
	static char text[16384];
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/self/status", text, sizeof(text));
	const char *line = n > 0 ? strstr(text, name) : NULL;

	CHILD_CHECK(line != NULL);
	return strtoull(line + strlen(name), NULL, 16);
}

static void drop_all(void *ctx)
{
	static const char *const sets[] = {
		"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"
	};
	const struct box_host host = { .privileged = true };
	struct step_context c = { .host = &host };
	struct err err = { 0 };

	(void)ctx;
	if (unshare(CLONE_NEWUSER) < 0)
		CHILD_SKIP("needs user namespaces");
	CHILD_CHECK(status_of("\nCapEff:") != 0);
	if (bounds_enter(&c, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	CHILD_CHECK(status_of("\nCapBnd:") == 0 && status_of("\nCapEff:") != 0);
	if (caps_enter(&c, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		if (status_of(sets[i]) != 0)
			child_fail(__FILE__, __LINE__, sets[i]);
	}
	CHILD_CHECK(status_of("\nNoNewPrivs:") == 1);
	CHILD_CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	CHILD_CHECK(unshare(CLONE_NEWNS) < 0 && errno == EPERM);
	CHILD_CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0) < 0);
}

TEST(no_capability_is_left_and_none_can_come_back)
{
	IN_CHILD(drop_all, NULL);
}

TESTS(UNIT(no_capability_is_left_and_none_can_come_back))
