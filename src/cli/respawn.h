/* A guardian for a process that must not stay dead: it does nothing but wait. */
#pragma once

/* Returns 1 in a child, again and again: whenever one was killed, or failed, there is another.
 * Returns 0 in the guardian, when a child ended well, when the first one ended with the status
 * `hopeless`, or when the guardian itself was told to end, after which its child has ended as
 * well. `*first_fd` is for the first child alone: in the others it is -1. */
int respawn_wait(int *first_fd, int hopeless);
