#include "core/boot.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/uuid.h"

#define DIGITS 8u

/* The first digits of a random UUID. */
static uint32_t read_tag(void)
{
	char text[UUID_SIZE + 2] = "";
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text));

	if (n != UUID_SIZE)
		return 0;
	text[DIGITS] = '\0';
	return (uint32_t)strtoul(text, NULL, 16);
}

uint32_t boot_tag(void)
{
	static uint32_t tag;

	if (!tag)
		tag = read_tag();
	return tag;
}
