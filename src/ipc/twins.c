#include "ipc/twins.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct twin {
	dev_t dev;
	ino_t ino;
	char name[];
};

static int compare(const void *a, const void *b)
{
	const struct twin *x = a;
	const struct twin *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

int twins_meet(
	struct twins *t, const struct stat *st, const char *name, const char **ret, struct err *err)
{
	size_t size = strlen(name) + 1;
	struct twin *fresh = malloc(sizeof(*fresh) + size);

	if (!fresh)
		return err_set(err, -ENOMEM, "no memory for the names of files");
	fresh->dev = st->st_dev;
	fresh->ino = st->st_ino;
	memcpy(fresh->name, name, size);
	struct twin **found = tsearch(fresh, &t->root, compare);
	if (!found) {
		free(fresh);
		return err_set(err, -ENOMEM, "no memory for the names of files");
	}
	*ret = NULL;
	if (*found != fresh) {
		free(fresh);
		*ret = (*found)->name;
	}
	return 0;
}

void twins_fini(struct twins *t)
{
	tdestroy(t->root, free);
	t->root = NULL;
}
