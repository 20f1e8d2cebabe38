/* Which start of the machine this is. While it is the same, every file is as it was written, by
 * whoever has died since; after a loss of power parts of it may be as they were before, or what
 * another file had. */
#pragma once
#include <stdint.h>

/* A random number of the kernel's; 0 when it does not say. */
uint32_t boot_tag(void);
