#include "fathom/language.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"
#include "lang/lang.h"

static int refuse(const char *name, struct err *err)
{
	char list[160] = "";

	for (const struct lang *l = langs; l->name; l++) {
		size_t n = strlen(list);

		if (lang_check(l, NULL) == 0)
			(void)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", l->name);
	}
	return err_set(err, -ENOENT, "Language %.40s is not available in this sandbox, but %s",
		quote(name).text, list);
}

int language_find(const char *name, const char *image, const struct lang **ret, struct err *err)
{
	const struct lang *l = lang_find(name);

	if (!l || (streq(image, "host") && lang_check(l, NULL) < 0))
		return refuse(name, err);
	*ret = l;
	return 0;
}
