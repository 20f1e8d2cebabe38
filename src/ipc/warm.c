#include "ipc/warm.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/cur.h"

static bool may_stand_in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.';
}

int warm_check_imports(const char *text, struct err *err)
{
	if (strlen(text) > WARM_IMPORTS_MAX)
		return err_set(
			err, -EINVAL, "more than %u bytes of names of modules", WARM_IMPORTS_MAX);
	for (const char *p = text; *p; p++) {
		bool begins = p == text || p[-1] == ',' || p[-1] == '.';

		if (*p == ',' || *p == '.'
				? begins || !p[1]
				: !may_stand_in_name(*p) || (begins && *p >= '0' && *p <= '9'))
			return err_set(err, -EINVAL,
				"'%.40s' is no name of a Python module; names are separated by "
				"commas",
				p);
	}
	return 0;
}

void warm_put(const struct warm *w, struct put *p)
{
	put_u32(p, (uint32_t)w->warmth);
	put_u64(p, w->memory_bytes);
	put_str(p, w->imports);
}

void warm_get(struct warm *w, struct cur *c)
{
	w->warmth = (enum warmth)cur_u32(c);
	w->memory_bytes = cur_u64(c);
	cur_str_into(c, w->imports, sizeof(w->imports));
	if (w->warmth >= WARM_COUNT || (!c->bad && warm_check_imports(w->imports, NULL) < 0))
		c->bad = true;
}

static void put_stock(const struct warm_stock *s, struct put *p)
{
	put_u64(p, s->waiting);
	put_u64(p, s->making);
	put_u64(p, s->hits);
	put_u64(p, s->misses);
	put_u64(p, s->made);
	put_u64(p, s->made_us);
}

static void get_stock(struct warm_stock *s, struct cur *c)
{
	s->waiting = cur_u64(c);
	s->making = cur_u64(c);
	s->hits = cur_u64(c);
	s->misses = cur_u64(c);
	s->made = cur_u64(c);
	s->made_us = cur_u64(c);
}

bool warm_state_is_same(const struct warm_state *a, const struct warm_state *b)
{
	return memcmp(a, b, sizeof(*a)) == 0; /* numbers of one size: there is no padding */
}

void warm_state_put(const struct warm_state *s, struct put *p)
{
	put_stock(&s->boxes, p);
	put_stock(&s->imported, p);
	put_stock(&s->clones, p);
}

void warm_state_get(struct warm_state *s, struct cur *c)
{
	get_stock(&s->boxes, c);
	get_stock(&s->imported, c);
	get_stock(&s->clones, c);
}
