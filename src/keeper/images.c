/* Roots of images: assembled at first use, kept while they are wanted. One that was
 * not for a while is let go, so that its image can be removed. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "box/root.h"
#include "image/image.h"
#include "keeper/keeper_private.h"

#define KEEP_NS (UINT64_C(60) * 1000000000)

static int assemble(struct keeper *k, const char *image, struct root **ret, struct err *err)
{
	AUTO_FD rootfs = -1;

	if (!streq(image, IMAGE_HOST)) {
		int r = image_open_rootfs(k->images_fd, image, &rootfs, err);
		if (r < 0)
			return r;
	}
	struct root_source source = {
		.image = image,
		.rootfs_fd = rootfs,
		.stage_dir = k->root_dir,
		.privileged = k->host.privileged,
	};
	int r = root_assemble(&source, ret, err);
	if (r == 0)
		(*ret)->rootfs_fd = take_fd(&rootfs);
	return r;
}

int images_find_root(struct keeper *k, const char *image, struct root **ret, struct err *err)
{
	struct root *root = k->roots;

	while (root && !streq(root->image, image))
		root = root->next;
	if (!root) {
		int r = assemble(k, image, &root, err);
		if (r < 0)
			return r;
		root->next = k->roots;
		k->roots = root;
	}
	root->used_ns = clock_monotonic_ns();
	*ret = root;
	return 0;
}

void images_expire(struct keeper *k)
{
	uint64_t now = clock_monotonic_ns();

	for (struct root **at = &k->roots; *at;) {
		struct root *root = *at;

		if (root->rootfs_fd < 0 || now - root->used_ns < KEEP_NS ||
			boxes_use_root(k, root)) {
			at = &root->next;
			continue;
		}
		*at = root->next;
		boxes_forget_root(k, root);
		root_free(root);
	}
}
