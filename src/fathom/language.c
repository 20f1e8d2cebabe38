#include "fathom/language.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"
#include "lang/lang.h"

/* Where a run looks for programs. */
static bool is_on_host(const struct lang *l)
{
	static const char *const places[] = { "/usr/local/bin", "/usr/bin", "/bin" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", places[i], l->argv[0]);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static int refuse(const char *name, struct err *err)
{
	char list[160] = "";

	for (const struct lang *l = langs; l->name; l++) {
		size_t n = strlen(list);

		if (is_on_host(l))
			(void)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", l->name);
	}
	return err_set(err, -ENOENT, "Language %.40s is not available in this sandbox, but %s",
		quote(name).text, list);
}

int language_find(const char *name, const char *image, const struct lang **ret, struct err *err)
{
	const struct lang *l = lang_find(name);

	if (!l || (streq(image, "host") && !is_on_host(l)))
		return refuse(name, err);
	*ret = l;
	return 0;
}
