#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "box/net.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

#define UID 0x70001234u

static bool same_namespace(pid_t pid, const char *name)
{
	char path[64];
	struct stat ours, theirs;

	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	CHILD_CHECK(stat(path, &ours) == 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	CHILD_CHECK(stat(path, &theirs) == 0);
	return ours.st_ino == theirs.st_ino;
}

static void make_and_end(void *ctx)
{
	static const char *const namespaces[] = { "user", "mnt", "pid", "net", "ipc", "uts" };
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box box;

	stage_host(&s, ctx);
	uid_t uid = geteuid();
	size_t n_before = scratch_count_fds();
	if (box_start(&s.host, &STAGE_ORDER(s.root, UID), &box, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	CHILD_CHECK(geteuid() == uid); /* what was put on was taken off */
	CHILD_CHECK(box.uid == (s.host.privileged ? UID : uid));
	CHILD_CHECK(box.pid > 0 && box.pid_fd >= 0);
	CHILD_CHECK(fcntl(box.control_fd, F_GETFL) & O_NONBLOCK);
	CHILD_CHECK(fcntl(box.control_fd, F_GETFD) & FD_CLOEXEC);
	if (geteuid() == 0) {
		for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
			CHILD_CHECK(!same_namespace(box.pid, namespaces[i]));
	}
	CHILD_CHECK(scratch_has(AT_FDCWD, ctx)); /* we are back in our own mounts */
	CHILD_CHECK(!box_reap(&box));
	box_kill(&box);
	struct pollfd p = { .fd = box.pid_fd, .events = POLLIN };
	CHILD_CHECK(poll(&p, 1, 20000) == 1);
	CHILD_CHECK(box_reap(&box));
	CHILD_CHECK(box_reap(&box)); /* once reaped, reaped */
	box_fini(&box);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(a_box_is_made_and_ends_when_killed)
{
	SCRATCH(d);

	IN_CHILD(make_and_end, d.path);
}

static void finish_a_living_one(void *ctx)
{
	struct stage s = { 0 };
	struct box boxes[5];

	stage_host(&s, ctx);
	size_t n_before = scratch_count_fds();
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		CHILD_CHECK(box_start(&s.host, &STAGE_ORDER(s.root, UID + (uid_t)i), &boxes[i],
				    NULL) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
		box_fini(&boxes[i]);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(to_finish_a_living_box_ends_it)
{
	SCRATCH(d);

	IN_CHILD(finish_a_living_one, d.path);
}

static void start_nowhere(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct box box = { .pid = 77 };
	struct root nowhere = { .image = "host", .ns_fd = -1, .rootfs_fd = -1 };

	stage_host(&s, ctx);
	size_t n_before = scratch_count_fds();
	CHILD_CHECK(box_start(&s.host, &STAGE_ORDER(&nowhere, UID), &box, &err) == -EBADF);
	CHILD_CHECK(err.text[0] && box.pid == 77);
	CHILD_CHECK(nets_count(s.host.nets) == 1); /* nobody was there */
	nets_free(TAKE(s.host.nets));
	CHILD_CHECK(scratch_count_fds() == n_before - 1);
}

TEST(a_box_on_no_root_is_no_box)
{
	SCRATCH(d);

	IN_CHILD(start_nowhere, d.path);
}

static void load_bad_profile(void *ctx)
{
	struct box_host host;
	struct err err = { 0 };

	(void)ctx;
	size_t n_before = scratch_count_fds();
	CHILD_CHECK(box_host_init(&host, "{", 1, &err) < 0);
	CHILD_CHECK(err.text[0] != '\0');
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(a_bad_profile_is_refused_before_anything_is_changed)
{
	IN_CHILD(load_bad_profile, NULL);
}

static void tell_facets(void *ctx)
{
	struct box_host host;
	struct err err = { 0 };

	(void)ctx;
	if (box_host_init(&host, NULL, 0, &err) < 0)
		CHILD_SKIP(err.text);
	CHILD_CHECK((host.facets & ~FACET_ALL) == 0);
	CHILD_CHECK(host.facets & FACET_BIT(FACET_SECCOMP));
	CHILD_CHECK(!(host.facets & FACET_BIT(FACET_LANDLOCK)) == (host.landlock_abi == 0));
	CHILD_CHECK(!(host.facets & FACET_BIT(FACET_UID)) == !host.privileged);
	/* A cgroup's are its own to tell. */
	CHILD_CHECK(!(host.facets & (FACET_BIT(FACET_MEMORY) | FACET_BIT(FACET_CPU))));
	box_host_fini(&host);
	CHILD_CHECK(host.home_ns_fd == -1);
}

TEST(a_host_tells_what_it_enforces)
{
	IN_CHILD(tell_facets, NULL);
}

TESTS(UNIT(a_box_is_made_and_ends_when_killed), UNIT(to_finish_a_living_box_ends_it),
	UNIT(a_box_on_no_root_is_no_box), UNIT(a_bad_profile_is_refused_before_anything_is_changed),
	UNIT(a_host_tells_what_it_enforces))
