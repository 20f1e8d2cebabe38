/* Mounts that show the files of one user as those of another. A workspace that outlives its
 * boxes holds files of BOX_UID, whoever made them; each box, which is somebody else on the
 * host every time, gets a mount of it through its own user namespace, and by that its files
 * are the box's. For the keeper of the host's root. */
#pragma once
#include <stdbool.h>

struct box;
struct err;

/* Show what BOX_UID owns in the detached mount `mount_fd` as the user's of `box`, who can
 * leave files of nobody else there. -EAGAIN while the box has not got its user yet: its init
 * takes that step by itself. */
int idmap_mount(int mount_fd, const struct box *box, struct err *err);

/* Can this host do that? A tmpfs can be mounted so since Linux 6.3, by who may look into
 * processes of others. Takes a moment: asks by doing it. */
bool idmap_works(void);
