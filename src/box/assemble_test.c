#include "box/assemble.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

static int mount_here(void *ctx, struct err *err)
{
	const char *dir = ctx;

	if (mount("tmpfs", dir, "tmpfs", 0, "size=64k") < 0)
		return err_errno(err, "mount");
	AUTO_FD root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || mkdirat(root, "inside", 0700) < 0)
		return err_errno(err, "fill");
	return assemble_leave_host(root, err);
}

static void is_its_own_world(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	AUTO_FD ns = -1;

	stage_host(&s, ctx);
	CHILD_CHECK(assemble_namespace(mount_here, ctx, &ns, &err) == 0);
	CHILD_CHECK(access("/inside", F_OK) < 0); /* not here */
	CHILD_CHECK(setns(ns, CLONE_NEWNS) == 0);
	CHILD_CHECK(access("/inside", F_OK) == 0);
	CHILD_CHECK(access("/usr", F_OK) < 0); /* and nothing of the host there */
}

TEST(a_namespace_holds_what_was_prepared_and_nothing_else)
{
	SCRATCH(d);

	IN_CHILD(is_its_own_world, d.path);
}

static int refuse(void *ctx, struct err *err)
{
	(void)ctx;
	return err_set(err, -EPERM, "not today");
}

static void says_why(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	int ns = -1;

	stage_host(&s, ctx);
	CHILD_CHECK(assemble_namespace(refuse, NULL, &ns, &err) == -EPERM);
	CHILD_CHECK(strcmp(err.text, "not today") == 0);
	CHILD_CHECK(ns == -1);
}

TEST(a_failed_preparation_says_why)
{
	SCRATCH(d);

	IN_CHILD(says_why, d.path);
}

TESTS(UNIT(a_namespace_holds_what_was_prepared_and_nothing_else),
	UNIT(a_failed_preparation_says_why))
