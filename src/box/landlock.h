/* Landlock: what this kernel has of it. */
#pragma once

/* The version of the kernel's Landlock, 0 when it has none or it is off. */
int landlock_abi(void);
