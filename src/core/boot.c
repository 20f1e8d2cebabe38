#include "core/boot.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DIGITS 8u

/* The first digits of a random UUID. */
static uint32_t read_tag(void)
{
	char text[DIGITS + 1] = "";
	AUTO_FD fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, DIGITS) != DIGITS)
		return 0;
	return (uint32_t)strtoul(text, NULL, 16);
}

uint32_t boot_tag(void)
{
	static uint32_t tag;

	if (!tag)
		tag = read_tag();
	return tag;
}
