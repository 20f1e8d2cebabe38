/* What every box needs in its root, whatever the image brought: the root is
 * mounted read-only, so the places to mount on must be there beforehand. */
#pragma once

struct err;
struct tree;

/* Make the mount points real directories and files, and give uid 1000 a name. A
 * link (or anything else) that an image has at such a place is replaced, since a
 * mount there would follow it: /tmp becomes an empty directory, /etc/resolv.conf
 * an empty file. */
int skeleton_make(struct tree *tree, struct err *err);
