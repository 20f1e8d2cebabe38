#include "core/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

void manifest_fini(struct manifest *m)
{
	manifest_cut(m, 0);
	free(m->at);
	*m = (struct manifest){ 0 };
}

void manifest_cut(struct manifest *m, size_t n)
{
	while (m->n > n) {
		m->n--;
		m->names_bytes -= strlen(m->at[m->n].name) + 1;
		free(m->at[m->n].name);
	}
}

static int make_room(struct manifest *m, struct err *err)
{
	if (m->n < m->room)
		return 0;
	size_t room = m->room ? 2 * m->room : 64;
	struct manifest_entry *grown = reallocarray(m->at, room, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "no memory for the names of files");
	m->at = grown;
	m->room = room;
	return 0;
}

int manifest_add(struct manifest *m, const struct manifest_entry *e, struct err *err)
{
	size_t size = strlen(e->name) + 1;

	if (m->n >= MANIFEST_ENTRIES_MAX)
		return err_set(
			err, -E2BIG, "more than %u files and directories", MANIFEST_ENTRIES_MAX);
	if (size > MANIFEST_NAMES_MAX - m->names_bytes)
		return err_set(err, -E2BIG, "the names of files take more than %u bytes",
			MANIFEST_NAMES_MAX);
	int r = make_room(m, err);
	if (r < 0)
		return r;
	char *name = strdup(e->name);
	if (!name)
		return err_set(err, -ENOMEM, "no memory for the names of files");
	m->at[m->n] = *e;
	m->at[m->n++].name = name;
	m->names_bytes += size;
	return 0;
}

/* As in a walk of the tree: what is below a name comes right behind it, because the slash
 * sorts before every other character. */
static int compare_paths(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	int x = *a == '/' ? 1 : *a ? 1 + (unsigned char)*a : 0;
	int y = *b == '/' ? 1 : *b ? 1 + (unsigned char)*b : 0;
	return x - y;
}

static int compare_entries(const void *a, const void *b)
{
	const struct manifest_entry *x = *(struct manifest_entry *const *)a;
	const struct manifest_entry *y = *(struct manifest_entry *const *)b;
	int r = compare_paths(x->name, y->name);

	return r ? r : (x > y) - (x < y); /* both are in one array, in the order they came */
}

static bool is_below(const char *name, const char *above)
{
	const char *rest = str_after(name, above);

	return rest && *rest == '/';
}

static size_t drop_sorted(struct manifest_entry **sorted, size_t n)
{
	const struct manifest_entry *file = NULL; /* the last one that stays */
	size_t n_lost = 0;

	for (size_t i = 0; i < n; i++) {
		struct manifest_entry *e = sorted[i];

		if (i + 1 < n && streq(e->name, sorted[i + 1]->name)) {
			e->dropped = true;
		} else if (file && is_below(e->name, file->name)) {
			e->dropped = e->is_lost = true;
			n_lost += !e->is_dir;
		} else if (!e->is_dir) {
			file = e;
		}
	}
	return n_lost;
}

size_t manifest_settle(struct manifest *m)
{
	AUTO_FREE struct manifest_entry **sorted =
		xcalloc(m->n + 1, sizeof(struct manifest_entry *));
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		if (!m->at[i].dropped)
			sorted[n++] = &m->at[i];
	qsort(sorted, n, sizeof(struct manifest_entry *), compare_entries);
	return drop_sorted(sorted, n);
}

size_t manifest_depth(const char *name)
{
	size_t n = 0;

	for (const char *p = name; *p; p++)
		n += *p == '/';
	return n;
}
