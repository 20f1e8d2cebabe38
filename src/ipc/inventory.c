#include "ipc/inventory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/cur.h"

/* Behind the last entry, of a listing of whose rest something is known: how many files there are
 * more, and whether that is not all. */
#define MARK_MORE 'M'
/* At the end: whether it was cut, and how many entries there are. */
#define MARK_END 'E'

static void grow(struct inventory *l)
{
	size_t room = l->room ? 2 * l->room : 16;
	struct inventory_entry *at = xcalloc(room, sizeof(*at));

	if (l->n > 0)
		memcpy(at, l->at, l->n * sizeof(*at));
	free(l->at);
	l->at = at;
	l->room = room;
}

void inventory_leave_out(struct inventory *l, const struct inventory_entry *e)
{
	bool counts = e->kind == INVENTORY_FILE && !str_after(e->path, INVENTORY_CACHES);

	l->is_cut = true;
	l->n_more += counts && l->n_more < UINT32_MAX;
}

bool inventory_has_room(const struct inventory *l, const char *path)
{
	return l->n < INVENTORY_ENTRIES_MAX && strlen(path) <= INVENTORY_BYTES_MAX - l->n_bytes;
}

int inventory_add(struct inventory *l, const struct inventory_entry *e)
{
	if (!inventory_has_room(l, e->path)) {
		inventory_leave_out(l, e);
		return -E2BIG;
	}
	if (l->n == l->room)
		grow(l);
	l->at[l->n] = *e;
	l->at[l->n++].path = xstrdup(e->path);
	l->n_bytes += strlen(e->path);
	return 0;
}

void inventory_drop(struct inventory *l, size_t i)
{
	inventory_leave_out(l, &l->at[i]);
	l->n_bytes -= strlen(l->at[i].path);
	free(l->at[i].path);
	l->at[i] = l->at[--l->n];
}

void inventory_set_partial(struct inventory *l)
{
	l->is_cut = true;
	l->is_partial = true;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct inventory_entry *)a)->path,
		((const struct inventory_entry *)b)->path);
}

int inventory_compare_newest(const void *a, const void *b)
{
	const struct inventory_entry *x = *(const struct inventory_entry *const *)a;
	const struct inventory_entry *y = *(const struct inventory_entry *const *)b;

	if (x->is_changed != y->is_changed)
		return x->is_changed ? -1 : 1;
	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns > y->mtime_ns ? -1 : 1;
	return strcmp(x->path, y->path);
}

void inventory_sort(struct inventory *l)
{
	if (l->n > 1)
		qsort(l->at, l->n, sizeof(*l->at), compare);
}

void inventory_fini(struct inventory *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->at[i].path);
	free(l->at);
	*l = (struct inventory){ 0 };
}

void inventory_put(const struct inventory *l, struct put *p)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct inventory_entry *e = &l->at[i];

		put_u8(p, (uint8_t)e->kind);
		put_u8(p, e->is_changed);
		put_u64(p, e->size);
		put_u64(p, e->mtime_ns);
		put_str(p, e->path);
		put_u8(p, e->has_sha256);
		if (e->has_sha256)
			put_bytes(p, e->sha256, sizeof(e->sha256));
	}
	if (l->is_cut && (l->n_more > 0 || !l->is_partial)) {
		put_u8(p, MARK_MORE);
		put_u32(p, l->n_more);
		put_u8(p, l->is_partial);
	}
	put_u8(p, MARK_END);
	put_u8(p, l->is_cut);
	put_u32(p, (uint32_t)l->n);
}

static bool kind_is_known(uint8_t kind)
{
	return kind == INVENTORY_FILE || kind == INVENTORY_DIR || kind == INVENTORY_LINK ||
	       kind == INVENTORY_OTHER;
}

static void get_digest(struct cur *c, uint8_t ret[SHA256_SIZE])
{
	for (size_t i = 0; i < SHA256_SIZE; i++)
		ret[i] = cur_u8(c);
}

static void get_entry(struct inventory *l, uint8_t kind, struct cur *c)
{
	struct inventory_entry e = { .kind = (enum inventory_kind)kind };

	e.is_changed = cur_bool(c);
	e.size = cur_u64(c);
	e.mtime_ns = cur_u64(c);
	AUTO_FREE char *path = cur_str(c, PACK_NAME_MAX);
	e.has_sha256 = cur_bool(c);
	if (e.has_sha256)
		get_digest(c, e.sha256);
	if (!kind_is_known(kind) || !path || !pack_name_is_clean(path) ||
		(e.has_sha256 && e.kind != INVENTORY_FILE))
		c->bad = true;
	e.path = path;
	if (!c->bad && inventory_add(l, &e) < 0)
		c->bad = true;
}

/* One that was cut and says no more of it was not looked at any further. */
static void get_rest(struct inventory *l, uint8_t kind, struct cur *c)
{
	bool has_more = kind == MARK_MORE;

	if (has_more) {
		l->n_more = cur_u32(c);
		l->is_partial = cur_bool(c);
		kind = cur_u8(c);
	}
	l->is_cut = cur_bool(c);
	if (kind != MARK_END || cur_u32(c) != l->n ||
		(has_more && (!l->is_cut || (l->n_more == 0 && l->is_partial))))
		c->bad = true;
	l->is_partial = l->is_partial || (l->is_cut && !has_more);
}

int inventory_get(struct inventory *ret, struct cur *c)
{
	struct inventory l = { 0 };
	uint8_t kind;

	while ((kind = cur_u8(c)) != MARK_END && kind != MARK_MORE && !c->bad)
		get_entry(&l, kind, c);
	get_rest(&l, kind, c);
	if (cur_end(c) < 0) {
		inventory_fini(&l);
		return -EBADMSG;
	}
	*ret = l;
	return 0;
}
