#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

static void become(void *ctx)
{
	struct stage s = { 0 };
	char map[128];
	char self[16];
	char *end;

	stage_enter(&s, ctx);
	stage_step(&s, user_enter);
	uid_t uids[3];
	gid_t gids[3];
	CHILD_CHECK(getresuid(&uids[0], &uids[1], &uids[2]) == 0);
	CHILD_CHECK(getresgid(&gids[0], &gids[1], &gids[2]) == 0);
	for (int i = 0; i < 3; i++)
		CHILD_CHECK(uids[i] == BOX_UID && gids[i] == BOX_GID);
	CHILD_CHECK(fd_read_text(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) > 0);
	CHILD_CHECK(strchr(map, '\n') == NULL); /* one line: one user */
	CHILD_CHECK(strtoul(map, &end, 10) == BOX_UID);
	(void)strtoul(end, &end, 10); /* who that is outside, is no business of the box */
	CHILD_CHECK(strtoul(end, &end, 10) == 1 && *end == '\0');
	CHILD_CHECK(setresuid(0, 0, 0) < 0 && errno == EINVAL); /* there is no root */
	CHILD_CHECK(setresgid(0, 0, 0) < 0 && errno == EINVAL);
	CHILD_CHECK(fd_read_text(AT_FDCWD, "/proc/self/setgroups", map, sizeof(map)) > 0);
	CHILD_CHECK(strcmp(map, "deny") == 0);
	/* The /proc is of the box: we are the only process there. */
	CHILD_CHECK(readlink("/proc/self", self, sizeof(self)) == 1 && self[0] == '1');
	CHILD_CHECK(access("/proc/2", F_OK) < 0);
}

TEST(there_is_one_user_and_it_is_not_root)
{
	SCRATCH(d);

	IN_CHILD(become, d.path);
}

TESTS(UNIT(there_is_one_user_and_it_is_not_root))
