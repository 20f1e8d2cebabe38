/* For the tests of src/box: the way of a box's init, as far as a test wants
 * to go along. Used in a child of lib/child.h; what is checked then is checked as
 * process 1 of a real box, made from the host's own /usr. */
#pragma once
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "box/box.h"
#include "box/clone.h"
#include "box/root.h"
#include "box/step.h"
#include "ipc/spec.h"
#include "lib/child.h"

struct stage {
	struct box_host host;
	struct root *root;
	struct spec spec;
	struct step_context c;
};

/* A box without a cgroup. */
#define STAGE_ORDER(where, who)                                                                    \
	((struct box_order){ .root = (where), .cgroup_fd = -1, .uid = (who) })

#define STAGE_NAMESPACES                                                                           \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* The child that made the box waits for it, and leaves the talking to it. */
static inline _Noreturn void stage_wait(pid_t pid)
{
	(void)waitpid(pid, NULL, 0);
	_exit(0);
}

/* Returns where mounts can be made that nobody else sees. A descriptor from before is
 * one of a mount outside: nothing can be mounted on it. */
static inline void stage_mounts(struct stage *s)
{
	struct err err = { 0 };

	if (box_host_init(&s->host, NULL, 0, &err) < 0)
		CHILD_SKIP(err.text);
	CHILD_CHECK(unshare(CLONE_NEWNS) == 0);
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static inline void stage_host(struct stage *s, const char *stage_dir)
{
	struct err err = { 0 };
	struct root_source source = { .image = "host", .rootfs_fd = -1, .stage_dir = stage_dir };

	if (box_host_init(&s->host, NULL, 0, &err) < 0)
		CHILD_SKIP(err.text);
	source.privileged = s->host.privileged;
	if (root_assemble(&source, &s->root, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	spec_init(&s->spec);
}

/* Returns in process 1 of a fresh box on the host that stage_host() found. */
static inline void stage_enter_host(struct stage *s)
{
	s->c = (struct step_context){
		.host = &s->host,
		.spec = &s->spec,
		.uid = geteuid(),
		.gid = getegid(),
		.control_fd = -1,
		.tty_fd = -1,
		.workspace_fd = -1,
	};
	CHILD_CHECK(setns(s->root->ns_fd, CLONE_NEWNS) == 0);
	pid_t pid = clone_process(STAGE_NAMESPACES, -1, NULL);
	CHILD_CHECK(pid >= 0);
	if (pid > 0)
		stage_wait(pid);
}

/* The same, before the first step, with the host to be found. */
static inline void stage_enter(struct stage *s, const char *stage_dir)
{
	stage_host(s, stage_dir);
	stage_enter_host(s);
}

static inline void stage_step(struct stage *s, step_fn *step)
{
	struct err err = { 0 };

	if (step(&s->c, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
}

/* What all boxes go through before they have a specification. */
static inline void stage_early(struct stage *s, const char *stage_dir)
{
	stage_enter(s, stage_dir);
	stage_step(s, user_enter);
	stage_step(s, mount_enter);
	stage_step(s, name_enter);
}
