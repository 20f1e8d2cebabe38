#include "box/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/bind.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

#define SOMEBODY 0x70001234u

/* A tmpfs of BOX_UID's, and a second mount of it in which nobody is anybody else. */
static void open_mounts(int *ret, int *ret_plain)
{
	struct err err = { 0 };

	CHILD_CHECK(bind_tmpfs("0777", "1m", ret_plain, &err) == 0);
	CHILD_CHECK(fchownat(*ret_plain, "", BOX_UID, BOX_GID, AT_EMPTY_PATH) == 0);
	if (bind_clone(*ret_plain, "", 0, ret, &err) == 0)
		return;
	/* Only what is mounted somewhere can be cloned before Linux 6.15. */
	CHILD_CHECK(unshare(CLONE_NEWNS) == 0);
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHILD_CHECK(bind_attach(*ret_plain, AT_FDCWD, "/mnt", &err) == 0);
	CHILD_CHECK(bind_clone(AT_FDCWD, "/mnt", 0, ret, &err) == 0);
}

/* What comes of it when `uid` makes a file there. */
static int make_file(int dir_fd, const char *name, uid_t uid)
{
	int status = 0;
	pid_t pid = fork();

	CHILD_CHECK(pid >= 0);
	if (pid == 0) {
		if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
			_exit(1);
		int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		_exit(fd < 0 ? errno : 0);
	}
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static bool is_owned(int dir_fd, const char *name, uid_t uid)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_EMPTY_PATH) == 0 && st.st_uid == uid &&
	       st.st_gid == uid;
}

static void show_to_a_box(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box box;
	AUTO_FD mount_fd = -1;
	AUTO_FD plain_fd = -1;
	int r = -EAGAIN;

	stage_host(&s, ctx);
	if (!s.host.privileged || !idmap_works())
		CHILD_SKIP("this host maps no users of a tmpfs");
	CHILD_CHECK(box_start(&s.host, &STAGE_ORDER(s.root, SOMEBODY), &box, &err) == 0);
	open_mounts(&mount_fd, &plain_fd);
	/* Its init takes the step while we look. */
	for (int i = 0; i < 20000 && r == -EAGAIN; i++) {
		r = idmap_mount(mount_fd, &box, &err);
		(void)usleep(1000);
	}
	CHILD_CHECK(r == 0);
	CHILD_CHECK(is_owned(mount_fd, "", SOMEBODY) && is_owned(plain_fd, "", BOX_UID));
	CHILD_CHECK(make_file(mount_fd, "a", SOMEBODY) == 0);
	CHILD_CHECK(is_owned(mount_fd, "a", SOMEBODY) && is_owned(plain_fd, "a", BOX_UID));
	/* Nobody else has a place there, who has that number outside included. */
	CHILD_CHECK(make_file(mount_fd, "b", SOMEBODY + 1) == -EOVERFLOW);
	CHILD_CHECK(make_file(mount_fd, "b", BOX_UID) == -EOVERFLOW);
	CHILD_CHECK(make_file(mount_fd, "b", 0) == -EOVERFLOW);
	CHILD_CHECK(idmap_mount(mount_fd, &box, &err) == -EPERM); /* once and for all */
	box_fini(&box);
}

TEST(files_belong_to_the_user_of_the_box_and_to_nobody_else)
{
	SCRATCH(d);

	IN_CHILD(show_to_a_box, d.path);
}

static void show_to_nobody(void *ctx)
{
	struct err err = { 0 };
	struct box box = { .pid_fd = -1 };
	AUTO_FD mount_fd = -1;
	char byte = 0;
	int ends[2];

	(void)ctx;
	if (!box_is_privileged() || !idmap_works())
		CHILD_SKIP("this host maps no users of a tmpfs");
	CHILD_CHECK(bind_tmpfs("0755", "64k", &mount_fd, &err) == 0);
	CHILD_CHECK(pipe2(ends, O_CLOEXEC) == 0);
	box.pid = clone_process(CLONE_NEWUSER, -1, &box.pid_fd);
	if (box.pid == 0) {
		(void)close(ends[1]);
		_exit((int)fd_read_full(ends[0], &byte, 1));
	}
	CHILD_CHECK(box.pid > 0);
	CHILD_CHECK(idmap_mount(mount_fd, &box, &err) == -EAGAIN);
	CHILD_CHECK(is_owned(mount_fd, "", 0)); /* nothing has changed */
	(void)close(ends[1]);
	box_fini(&box);
}

TEST(a_box_without_a_user_may_be_tried_again)
{
	IN_CHILD(show_to_nobody, NULL);
}

static void may_not(void *ctx)
{
	size_t n_before = scratch_count_fds();

	(void)ctx;
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (geteuid() == 0)
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	CHILD_CHECK(!idmap_works());
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	CHILD_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(a_plain_user_can_not_do_it_and_leaves_nothing)
{
	IN_CHILD(may_not, NULL);
}

TESTS(UNIT(files_belong_to_the_user_of_the_box_and_to_nobody_else),
	UNIT(a_box_without_a_user_may_be_tried_again),
	UNIT(a_plain_user_can_not_do_it_and_leaves_nothing))
