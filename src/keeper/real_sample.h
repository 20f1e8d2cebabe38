/* For tests of the keeper's files: a keeper that can make real boxes, without clients. */
#pragma once
#include <errno.h>
#include <sys/wait.h>

#include "base/err.h"
#include "box/root.h"
#include "keeper/keeper_private.h"
#include "lib/child.h"

/* In a child of lib/child.h, since it changes its namespaces. */
static inline void real_open(struct keeper *k, const char *dir, struct root **ret)
{
	struct err err = { 0 };
	struct spec standard;

	spec_init(&standard);
	*k = (struct keeper){ KEEPER_FRESH, .favourite_limits = standard.limits };
	if (state_open(k, dir, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	if (box_host_init(&k->host, NULL, 0, &err) < 0)
		CHILD_SKIP(err.text);
	if (images_find_root(k, "host", ret, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
}

/* Nothing may be left: no process, no descriptor, no cgroup. */
static inline void real_close(struct keeper *k)
{
	boxes_fini(k);
	CHILD_CHECK(!k->ready.boxes && !k->busy && !k->retired && k->ready.n == 0);
	CHILD_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	state_close(k);
	for (struct root *root; (root = k->roots);) {
		k->roots = root->next;
		root_free(root);
	}
	box_host_fini(&k->host);
}
