/* What a name, or the first bytes of a file, say about an upload. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "core/upload.h"
#include "ipc/pack.h"

static const struct suffix {
	const char *text;
	enum upload_kind kind;
} suffixes[] = {
	{ ".tar", UPLOAD_TAR },
	{ ".tar.gz", UPLOAD_TAR },
	{ ".tgz", UPLOAD_TAR },
	{ ".tar.bz2", UPLOAD_TAR },
	{ ".tbz2", UPLOAD_TAR },
	{ ".tar.xz", UPLOAD_TAR },
	{ ".txz", UPLOAD_TAR },
	{ ".tar.zst", UPLOAD_TAR },
	{ ".zip", UPLOAD_ZIP },
};

enum upload_kind upload_kind_of(const char *name)
{
	name = name ? name : "";
	size_t n = strlen(name);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t size = strlen(suffixes[i].text);

		if (n >= size && strcasecmp(name + n - size, suffixes[i].text) == 0)
			return suffixes[i].kind;
	}
	return UPLOAD_PLAIN;
}

bool upload_clean_name(const char *name, char *ret)
{
	size_t used = 0;

	if (*name == '/' || strchr(name, '\\'))
		return false;
	while (*name) {
		size_t n = strcspn(name, "/");

		if (n == 2 && memcmp(name, "..", 2) == 0)
			return false;
		if (n > 0 && !(n == 1 && *name == '.')) {
			if (used + n + 1 > PACK_NAME_MAX)
				return false;
			if (used > 0)
				ret[used++] = '/';
			memcpy(ret + used, name, n);
			used += n;
		}
		name += n + (name[n] == '/');
	}
	ret[used] = '\0';
	return used == 0 || pack_name_is_clean(ret);
}

/* Marks of programs that need not hold a NUL in their first bytes, or are too short to. */
static const struct mark {
	const char *bytes;
	size_t size;
} marks[] = {
	{ "\x7f"
	  "ELF",
		4 },
	{ "MZ", 2 },               /* DOS and Windows */
	{ "\xfe\xed\xfa\xce", 4 }, /* Mach-O, both orders and sizes */
	{ "\xfe\xed\xfa\xcf", 4 },
	{ "\xce\xfa\xed\xfe", 4 },
	{ "\xcf\xfa\xed\xfe", 4 },
	{ "\xca\xfe\xba\xbe", 4 }, /* Java, and Mach-O for several machines */
	{ "\0asm", 4 },            /* WebAssembly */
	{ "!<arch>\n", 8 },        /* static libraries */
	{ "dex\n", 4 },
};

bool upload_is_binary(const void *head, size_t size)
{
	size = size < UPLOAD_HEAD_SIZE ? size : UPLOAD_HEAD_SIZE;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (size >= marks[i].size && memcmp(head, marks[i].bytes, marks[i].size) == 0)
			return true;
	return size > 0 && memchr(head, '\0', size);
}
