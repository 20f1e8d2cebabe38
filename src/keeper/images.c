/* Roots of images, assembled at first use and kept. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "box/root.h"
#include "image/image.h"
#include "keeper/keeper_private.h"

int images_find_root(struct keeper *k, const char *image, struct root **ret, struct err *err)
{
	AUTO_FD rootfs = -1;
	struct root *root = NULL;

	for (root = k->roots; root; root = root->next) {
		if (streq(root->image, image)) {
			*ret = root;
			return 0;
		}
	}
	if (!streq(image, "host")) {
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
	int r = root_assemble(&source, &root, err);
	if (r < 0)
		return r;
	root->next = k->roots;
	k->roots = root;
	*ret = root;
	return 0;
}
