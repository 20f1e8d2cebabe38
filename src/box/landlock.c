/* A second wall behind the mounts: writing is allowed below the box's own
 * directories and nowhere else, and no signal or abstract socket crosses the
 * border. Reading is not restricted here: all there is to read was put there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/box.h"
#include "box/landlock.h"
#include "box/step.h"

/* Newer than the headers of Debian 12; the numbers are the kernel's interface. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#define SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define SCOPE_SIGNAL               (1ULL << 1)

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

#define ACCESS_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE)
#define ACCESS_TREE                                                                                \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                           \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                     \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                       \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)
#define ACCESS_DENIED (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

static const struct {
	const char *path;
	bool is_tree;
} writable[] = {
	{ "/workspace", true }, { "/tmp", true }, { "/dev/shm", true },
	{ "/dev", false }, /* null, tty, the terminals: files that are there */
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

/* Rights which came with later versions of Landlock. */
static uint64_t later_rights(int abi)
{
	return (abi >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) |
	       (abi >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0);
}

static int add_rules(int ruleset, int abi, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(writable); i++) {
		AUTO_FD fd = open(writable[i].path, O_PATH | O_CLOEXEC);
		struct landlock_path_beneath_attr rule = {
			.allowed_access =
				writable[i].is_tree ? ACCESS_TREE | later_rights(abi) : ACCESS_FILE,
			.parent_fd = fd,
		};

		if (fd < 0)
			return err_errno(err, "open %s", writable[i].path);
		if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) <
			0)
			return err_errno(err, "allow writing below %s", writable[i].path);
	}
	return 0;
}

int landlock_enter(struct step_context *c, struct err *err)
{
	int abi = c->host->landlock_abi;
	struct ruleset_attr attr = {
		.handled_access_fs = ACCESS_TREE | ACCESS_DENIED | later_rights(abi),
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
	};
	/* A kernel refuses a struct that is longer than its own unless the rest is 0. */
	size_t size = abi >= 6 ? sizeof(attr) : sizeof(attr.handled_access_fs);

	if (abi == 0)
		return 0; /* the host's facets say so */
	AUTO_FD ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		return err_errno(err, "make a ruleset");
	int r = add_rules(ruleset, abi, err);
	if (r < 0)
		return r;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_errno(err, "restrict");
	return 0;
}
