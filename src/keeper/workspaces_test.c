#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "keeper/sample.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

#define ID "00112233445566778899aabbccddeeff"

/* A keeper with a real host, since workspaces are real mounts. */
static void open_keeper(struct keeper *k, const char *dir)
{
	struct err err = { 0 };

	*k = (struct keeper){ 0 };
	if (box_host_init(&k->host, NULL, 0, &err) < 0)
		CHILD_SKIP(err.text);
	workspace_home_init(&k->workspace_home, &k->host, dir);
}

static void one_owner(void *ctx)
{
	static struct keeper k;
	struct err err = { 0 };

	open_keeper(&k, ctx);
	CHILD_CHECK(workspaces_add(&k, ID, 1234, 1 << 20, &err) == 0);
	CHILD_CHECK(workspaces_find(&k, ID, 1234) != NULL);
	CHILD_CHECK(workspaces_find(&k, ID, 1235) == NULL); /* as if it did not exist */
	CHILD_CHECK(workspaces_find(&k, ID, 0) != NULL);
	CHILD_CHECK(workspaces_add(&k, ID, 1235, 1 << 20, &err) == -EEXIST);
	CHILD_CHECK(k.n_workspaces == 1);
	workspaces_drop(&k, workspaces_find(&k, ID, 1234));
	CHILD_CHECK(workspaces_find(&k, ID, 1234) == NULL);
	CHILD_CHECK(workspaces_add(&k, ID, 1235, 1 << 20, &err) == 0);
	workspaces_drop_all(&k);
	CHILD_CHECK(k.n_workspaces == 0 && !k.workspaces);
}

TEST(a_workspace_has_one_owner)
{
	SCRATCH(d);

	IN_CHILD(one_owner, d.path);
}

static void bounded(void *ctx)
{
	static struct keeper k;
	struct err err = { 0 };

	open_keeper(&k, ctx);
	k.n_workspaces = WORKSPACES_MAX;
	CHILD_CHECK(workspaces_add(&k, ID, 1, 1 << 20, &err) == -EAGAIN);
	CHILD_CHECK(!k.workspaces);
}

TEST(there_are_so_many_and_no_more)
{
	SCRATCH(d);

	IN_CHILD(bounded, d.path);
}

static void runs_forget_it(void *ctx)
{
	static struct keeper k;
	struct err err = { 0 };
	struct ward run = { 0 };
	struct spec spec;
	int fd = -1;

	open_keeper(&k, ctx);
	CHILD_CHECK(workspaces_add(&k, ID, 1, 1 << 20, &err) == 0);
	run.workspace = workspaces_find(&k, ID, 1);
	k.runs = &run;
	spec_init(&spec);
	spec.limits.workspace_bytes = 1 << 20;
	spec.deed = DEED_FILES;
	run.limits.workspace_bytes = 1 << 20;
	CHILD_CHECK(workspaces_open(&k, &run, &spec, &fd, &err) == 0);
	CHILD_CHECK(run.workspace->bytes == 2 << 20);
	workspaces_settle(&k, &run);
	CHILD_CHECK(k.workspaces->bytes == 1 << 20);
	CHILD_CHECK(close(fd) == 0);
	run.workspace = k.workspaces;
	workspaces_drop(&k, run.workspace);
	CHILD_CHECK(run.workspace == NULL);
	CHILD_CHECK(k.disposer.pid > 0); /* which frees what was in it */
	disposer_fini(&k.disposer);
}

/* A run that uses it ends. */
static void end_one(struct keeper *k, const struct ward *like)
{
	struct ward run = *like;

	workspaces_settle(k, &run);
}

static int fill(int dir, const char *name, size_t n_pages)
{
	static const char page[4096];
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int r = 0;

	CHILD_CHECK(fd >= 0);
	for (size_t i = 0; i < n_pages && r == 0; i++)
		r = write(fd, page, sizeof(page)) == sizeof(page) ? 0 : -errno;
	(void)close(fd);
	return r;
}

/* A guest that writes while files come in uses the room that these have beside the others. */
static void size_is_kept(void *ctx)
{
	static struct keeper k;
	struct err err = { 0 };
	struct ward errand = { .limits.workspace_bytes = 1 << 20 };
	struct ward run = { .limits.workspace_bytes = 1 << 20 };
	struct spec spec;
	int fd = -1, clone_fd = -1, again_fd = -1;

	open_keeper(&k, ctx);
	CHILD_CHECK(workspaces_add(&k, ID, 1, 1 << 20, &err) == 0);
	errand.workspace = run.workspace = k.workspaces;
	spec_init(&spec);
	spec.limits.workspace_bytes = 1 << 20;
	CHILD_CHECK(workspaces_open(&k, &run, &spec, &clone_fd, &err) == 0);
	spec.deed = DEED_FILES;
	CHILD_CHECK(workspaces_open(&k, &errand, &spec, &fd, &err) == 0);
	/* Runs that begin and end meanwhile take nothing of that room away. */
	spec.deed = DEED_EXECUTE;
	CHILD_CHECK(workspaces_open(&k, &run, &spec, &again_fd, &err) == 0);
	end_one(&k, &run);
	CHILD_CHECK(k.workspaces->bytes == 2 << 20);
	CHILD_CHECK(fill(clone_fd, "taken", 400) == 0);
	workspaces_settle(&k, &errand);
	CHILD_CHECK(fill(clone_fd, "more", 1) == -ENOSPC);
	/* It can not get at it again by taking away a little. */
	CHILD_CHECK(unlinkat(clone_fd, "more", 0) == 0 && unlinkat(clone_fd, "taken", 0) == 0);
	CHILD_CHECK(fill(clone_fd, "taken", 300) == 0);
	end_one(&k, &run);
	CHILD_CHECK(fill(clone_fd, "more", 1) == -ENOSPC);
	CHILD_CHECK(unlinkat(clone_fd, "more", 0) == 0 && unlinkat(clone_fd, "taken", 0) == 0);
	end_one(&k, &run);
	CHILD_CHECK(k.workspaces->bytes == 1 << 20);
	CHILD_CHECK(fill(clone_fd, "taken", 300) == -ENOSPC);
	workspaces_drop_all(&k);
}

TEST(a_run_can_not_keep_the_room_that_files_had_to_come_in)
{
	SCRATCH(d);

	IN_CHILD(size_is_kept, d.path);
}

/* A result is acknowledged later than it is told, and the next run does not wait for that. */
static void acknowledged_late(void *ctx)
{
	static struct keeper k;
	struct err err = { 0 };
	struct ward small = { .limits.workspace_bytes = 1 << 20 };
	struct ward large = { .limits.workspace_bytes = 4 << 20 };
	struct spec spec;
	int fd = -1;

	open_keeper(&k, ctx);
	CHILD_CHECK(workspaces_add(&k, ID, 1, 1 << 20, &err) == 0);
	small.workspace = large.workspace = k.workspaces;
	spec_init(&spec);
	workspaces_settle(&k, &small);
	spec.limits.workspace_bytes = 4 << 20;
	CHILD_CHECK(workspaces_open(&k, &large, &spec, &fd, &err) == 0);
	workspaces_settle(&k, &small);
	CHILD_CHECK(k.workspaces->bytes == 4 << 20);
	CHILD_CHECK(fill(fd, "large", 600) == 0);
	workspaces_drop_all(&k);
}

TEST(a_run_that_is_over_does_not_change_its_size)
{
	SCRATCH(d);

	IN_CHILD(acknowledged_late, d.path);
}

TEST(a_run_in_it_forgets_it_when_it_goes)
{
	SCRATCH(d);

	IN_CHILD(runs_forget_it, d.path);
}

TESTS(UNIT(a_workspace_has_one_owner), UNIT(there_are_so_many_and_no_more),
	UNIT(a_run_can_not_keep_the_room_that_files_had_to_come_in),
	UNIT(a_run_that_is_over_does_not_change_its_size),
	UNIT(a_run_in_it_forgets_it_when_it_goes))
