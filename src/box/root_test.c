#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

static bool is_read_only(const char *dir)
{
	AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return mkdirat(fd, "new", 0755) < 0 && errno == EROFS;
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	CHILD_CHECK(dir != NULL);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n - 2;
}

static void look(void *ctx)
{
	static const char *const read_only[] = { "/", "/usr", "/usr/bin", "/etc", "/dev", "/var",
		"/run", "/root", "/home", "/mnt", "/tmp", "/workspace" };
	static const char *const empty[] = { "/root", "/home", "/run", "/tmp", "/workspace", "/sys",
		"/dev/shm", "/dev/pts" };
	static const char *const absent[] = { "/etc/shadow", "/etc/ssh", "/boot", "/opt", "/srv",
		"/var/log", "/dev/sda", "/dev/kmsg", "/dev/mem", "/dev/kvm", "/dev/fuse" };
	struct stage s = { 0 };
	struct stat st;
	char passwd[512];

	stage_host(&s, ctx);
	CHILD_CHECK(setns(s.root->ns_fd, CLONE_NEWNS) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(read_only); i++)
		CHILD_CHECK(is_read_only(read_only[i]));
	for (size_t i = 0; i < ARRAY_SIZE(empty); i++)
		CHILD_CHECK(count_entries(empty[i]) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		CHILD_CHECK(!scratch_has(AT_FDCWD, absent[i]));
	CHILD_CHECK(!scratch_has(AT_FDCWD, ctx)); /* nothing of the host's own /tmp */
	CHILD_CHECK(access("/usr/bin/env", X_OK) == 0 && access("/bin/sh", X_OK) == 0);
	CHILD_CHECK(fd_read_text(AT_FDCWD, "/etc/passwd", passwd, sizeof(passwd)) > 0);
	CHILD_CHECK(strstr(passwd, "\nbox:x:1000:1000:") != NULL);
	CHILD_CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
	CHILD_CHECK(st.st_rdev == makedev(1, 3));
	scratch_write(AT_FDCWD, "/dev/null", "x");
	/* The procfs beneath shows nobody. */
	CHILD_CHECK(!scratch_has(AT_FDCWD, "/proc/self/status"));
	CHILD_CHECK(!scratch_has(AT_FDCWD, "/proc/1"));
}

TEST(the_root_holds_what_it_should_and_nothing_else)
{
	SCRATCH(d);

	scratch_write(d.fd, "secret", "x");
	IN_CHILD(look, d.path);
}

static void refuse(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct root *root = NULL;
	struct root_source source = { .image = "host", .rootfs_fd = -1, .stage_dir = ctx };

	if (box_host_init(&s.host, NULL, 0, &err) < 0)
		CHILD_SKIP(err.text);
	size_t n_before = scratch_count_fds();
	CHILD_CHECK(root_assemble(&source, &root, &err) == -ENOENT);
	CHILD_CHECK(strstr(err.text, "root: ") && root == NULL);
	CHILD_CHECK(scratch_count_fds() == n_before);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	root_free(NULL);
}

TEST(what_can_not_be_assembled_leaves_nothing)
{
	IN_CHILD(refuse, (char *)"/nowhere/to/stage");
}

TESTS(UNIT(the_root_holds_what_it_should_and_nothing_else),
	UNIT(what_can_not_be_assembled_leaves_nothing))
