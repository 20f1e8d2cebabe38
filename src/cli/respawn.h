/* A guardian for a process that must not stay dead: it does nothing but wait. */
#pragma once

/* Returns 1 in a child, again and again: whenever one was killed, or failed, there is another.
 * Returns 0 in the guardian, when a child ended well or the guardian itself was told to end,
 * after which its child has ended as well. */
int respawn_wait(void);
