#include "base/percent.h"

#include <string.h>

#include "base/str.h"

char *percent_encode(const char *text)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	static const char digits[] = "0123456789ABCDEF";
	char *encoded = xcalloc(strlen(text) + 1, 3);
	char *to = encoded;

	for (const char *c = text; *c; c++) {
		if (strchr(plain, *c)) {
			*to++ = *c;
			continue;
		}
		*to++ = '%';
		*to++ = digits[(unsigned char)*c >> 4];
		*to++ = digits[*c & 15];
	}
	return encoded;
}
