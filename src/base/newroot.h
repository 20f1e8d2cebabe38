/* For a process in a chroot. The kernel makes no user namespace there, and to enter any mount
 * namespace, even one's own, leads out of the chroot. So such a process gets a mount namespace
 * whose root is what it had as its root: from then on it is in no chroot, and sees the same files.
 */
#pragma once

struct err;

/* 1 when the process was in a chroot, and has its own namespace now; 0 when it was in none, or has
 * no right to find out, as everybody but root. A negative errno leaves a process that should end.
 * With one thread only. */
int newroot_if_chrooted(struct err *err);
