#include "lang/lang.h"

#include "base/str.h"

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NONE       ((const char *const[]){ NULL })

const struct lang langs[] = {
	{
		.name = "python",
		.aliases = WORDS("python3", "py"),
		.source = "main.py",
		.argv = WORDS("python3", "/workspace/main.py"),
		/* Output is to be seen as it is made, also in a pipe. */
		.env = WORDS("PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"),
	},
	{
		.name = "javascript",
		.aliases = WORDS("js", "node", "nodejs"),
		.source = "main.js",
		.argv = WORDS("node", "/workspace/main.js"),
		.env = NONE,
	},
	{
		.name = "shell",
		.aliases = WORDS("sh", "bash"),
		.source = "main.sh",
		/* bash where there is one, as small images have none. */
		.argv = WORDS("sh", "-c",
			"command -v bash >/dev/null && exec bash \"$@\"; exec sh \"$@\"", "sh",
			"/workspace/main.sh"),
		.env = NONE,
	},
	{ 0 },
};

const struct lang *lang_find(const char *name)
{
	for (const struct lang *l = langs; l->name; l++) {
		if (streq(l->name, name))
			return l;
		for (size_t i = 0; l->aliases[i]; i++) {
			if (streq(l->aliases[i], name))
				return l;
		}
	}
	return NULL;
}

const char *lang_nearest(const char *name)
{
	const char *names[64];
	size_t n = 0;

	for (const struct lang *l = langs; l->name; l++) {
		names[n++] = l->name;
		for (size_t i = 0; l->aliases[i]; i++)
			names[n++] = l->aliases[i];
	}
	return str_nearest(name, names, n);
}
