#include "base/uuid.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"

/* Where the dashes are. */
static bool is_dash(int i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

void uuid_make(char ret[UUID_SIZE + 1])
{
	uint8_t b[16];
	char hex[33];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		abort();
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	str_hex(b, sizeof(b), hex);
	uuid_from_hex(hex, ret);
}

bool uuid_is_valid(const char *text)
{
	int i = 0;

	for (; i < UUID_SIZE && text[i]; i++) {
		if (is_dash(i) ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
			return false;
	}
	return i == UUID_SIZE && !text[i];
}

void uuid_to_hex(const char *uuid, char ret[33])
{
	int n = 0;

	for (int i = 0; i < UUID_SIZE; i++) {
		if (!is_dash(i))
			ret[n++] = uuid[i];
	}
	ret[n] = '\0';
}

void uuid_from_hex(const char *hex, char ret[UUID_SIZE + 1])
{
	for (int i = 0; i < UUID_SIZE; i++)
		ret[i] = is_dash(i) ? '-' : *hex++;
	ret[UUID_SIZE] = '\0';
}
