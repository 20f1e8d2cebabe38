#include <errno.h>
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
	CHILD_CHECK(workspaces_open(&k, run.workspace, &spec, &fd, &err) == 0);
	CHILD_CHECK(run.workspace->bytes == 2 << 20);
	workspaces_settle(&k, run.workspace, 1 << 20);
	CHILD_CHECK(run.workspace->bytes == 1 << 20);
	CHILD_CHECK(close(fd) == 0);
	workspaces_drop(&k, run.workspace);
	CHILD_CHECK(run.workspace == NULL);
}

TEST(a_run_in_it_forgets_it_when_it_goes)
{
	SCRATCH(d);

	IN_CHILD(runs_forget_it, d.path);
}

TESTS(UNIT(a_workspace_has_one_owner), UNIT(there_are_so_many_and_no_more),
	UNIT(a_run_in_it_forgets_it_when_it_goes))
