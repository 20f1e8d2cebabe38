#include <errno.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/un.h>

#include "base/err.h"
#include "keeper/sample.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

static struct keeper no_keeper(void)
{
	return (struct keeper){ .root_fd = -1, .images_fd = -1, .lock_fd = -1, .uid = geteuid() };
}

TEST(a_keeper_registers_and_leaves_nothing)
{
	SCRATCH(d);
	struct keeper k = no_keeper();
	struct err err = { 0 };
	char path[PATH_MAX];
	char registered[64];

	(void)snprintf(path, sizeof(path), "%s/deep/root", d.path);
	int r = state_open(&k, path, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	CHECK_STR(k.root_dir, path);
	CHECK(str_is_hex(k.id, 16));
	CHECK(k.cgroups != NULL);
	(void)snprintf(registered, sizeof(registered), "deep/root/keepers/%s", k.id);
	CHECK(scratch_has(d.fd, registered));
	CHECK(scratch_has(d.fd, "deep/root/images"));
	state_close(&k);
	CHECK(!scratch_has(d.fd, registered));
	CHECK(k.root_dir == NULL && k.lock_fd == -1 && k.root_fd == -1);
}

TEST(what_dead_keepers_left_is_swept_and_what_lives_stays)
{
	SCRATCH(d);
	struct keeper k = no_keeper();
	struct keeper other = no_keeper();

	CHECK_EQ(state_open(&other, d.path, NULL), 0);
	AUTO_FD keepers = openat(d.fd, "keepers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(keepers, "00000000deadbeef", "");
	scratch_write(keepers, "not-an-id", "");
	scratch_write(keepers, "00000000DEADBEEF", "");
	CHECK_EQ(symlinkat("/etc/passwd", keepers, "00000000feedface"), 0);
	CHECK_EQ(state_open(&k, d.path, NULL), 0);
	CHECK(!scratch_has(keepers, "00000000deadbeef"));
	CHECK(scratch_has(keepers, "not-an-id"));
	CHECK(scratch_has(keepers, "00000000DEADBEEF"));
	CHECK(scratch_has(keepers, "00000000feedface"));
	CHECK(scratch_has(keepers, other.id));
	CHECK(scratch_has(keepers, k.id));
	state_close(&k);
	state_close(&other);
}

TEST(a_bad_place_is_refused)
{
	SCRATCH(d);
	struct keeper k = no_keeper();
	struct err err = { 0 };
	char path[PATH_MAX];

	CHECK_EQ(state_open(&k, "/up/../down", &err), -EINVAL);
	CHECK(strstr(err.text, "/up/../down") != NULL);
	state_close(&k);
	scratch_write(d.fd, "file", "");
	(void)snprintf(path, sizeof(path), "%s/file", d.path);
	CHECK_EQ(state_open(&k, path, &err), -ENOTDIR);
	state_close(&k);
	/* A link in the place of a directory of ours could lead anywhere. */
	CHECK_EQ(symlinkat("/tmp", d.fd, "keepers"), 0);
	CHECK(state_open(&k, d.path, &err) < 0);
	CHECK(strstr(err.text, "keepers") != NULL);
	state_close(&k);
}

static int try_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/keeper.sock", path);
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

/* The lock is held until the process ends, so this needs one of its own. */
static void listen_once(void *ctx)
{
	const struct scratch *d = ctx;
	struct keeper first = no_keeper();
	struct keeper second = no_keeper();
	struct err err = { 0 };
	struct stat st;
	int fd = -1;
	int other_fd = -1;

	scratch_write(d->fd, "keeper.sock", "stale");
	CHILD_CHECK(state_open(&first, d->path, NULL) == 0);
	CHILD_CHECK(state_listen(&first, &fd, NULL) == 0);
	CHILD_CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHILD_CHECK(fstatat(d->fd, "keeper.sock", &st, AT_SYMLINK_NOFOLLOW) == 0);
	CHILD_CHECK(st.st_mode == (S_IFSOCK | 0600));
	CHILD_CHECK(try_connect(d->path) == 0);
	CHILD_CHECK(state_open(&second, d->path, NULL) == 0);
	CHILD_CHECK(state_listen(&second, &other_fd, &err) == -EADDRINUSE);
	CHILD_CHECK(strstr(err.text, d->path) != NULL);
	CHILD_CHECK(other_fd == -1);
	state_close(&second); /* takes only away what is its own */
	CHILD_CHECK(try_connect(d->path) == 0);
	state_close(&first);
	CHILD_CHECK(!scratch_has(d->fd, "keeper.sock"));
}

TEST(one_keeper_listens)
{
	SCRATCH(d);

	IN_CHILD(listen_once, &d);
	IN_CHILD(listen_once, &d); /* the lock went with the process */
}

static void listen_for_another(void *ctx)
{
	const struct scratch *d = ctx;
	struct keeper k = no_keeper();
	struct stat st;
	int fd = -1;

	if (geteuid() != 0)
		CHILD_SKIP("needs root to give the socket away");
	k.uid = 12345;
	CHILD_CHECK(state_open(&k, d->path, NULL) == 0);
	CHILD_CHECK(state_listen(&k, &fd, NULL) == 0);
	CHILD_CHECK(fstatat(d->fd, "keeper.sock", &st, AT_SYMLINK_NOFOLLOW) == 0);
	CHILD_CHECK(st.st_uid == 12345 && st.st_mode == (S_IFSOCK | 0600));
	state_close(&k);
}

TEST(the_socket_belongs_to_whom_it_serves)
{
	SCRATCH(d);

	IN_CHILD(listen_for_another, &d);
}

TEST(a_long_path_is_no_obstacle)
{
	SCRATCH(d);
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%0200d/%0200d", d.path, 0, 0);
	struct keeper k = no_keeper();
	int fd = -1;
	CHECK_EQ(state_open(&k, path, NULL), 0);
	CHECK_EQ(state_listen(&k, &fd, NULL), 0);
	(void)close(fd);
	state_close(&k);
}

TESTS(UNIT(a_keeper_registers_and_leaves_nothing),
	UNIT(what_dead_keepers_left_is_swept_and_what_lives_stays), UNIT(a_bad_place_is_refused),
	UNIT(one_keeper_listens), UNIT(the_socket_belongs_to_whom_it_serves),
	UNIT(a_long_path_is_no_obstacle))
