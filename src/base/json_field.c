#include "base/json_field.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

/* An object or array that is open. */
struct level {
	bool is_array;
	size_t index;    /* of an array: where we are */
	const char *key; /* of an object: likewise, between its quotes; NULL before the next */
	size_t key_size;
};

/* A reader refuses what is nested deeper, so what lies below the last level is of no use. */
struct walk {
	struct level levels[JSON_DEPTH_MAX + 1];
	size_t depth;
	bool wants_key; /* the next string is one */
};

static struct level *innermost(struct walk *w)
{
	return w->depth > 0 && w->depth <= ARRAY_SIZE(w->levels) ? &w->levels[w->depth - 1] : NULL;
}

static void open_level(struct walk *w, bool is_array)
{
	w->depth++;
	w->wants_key = !is_array;
	struct level *l = innermost(w);
	if (l)
		*l = (struct level){ .is_array = is_array };
}

static void close_level(struct walk *w)
{
	w->depth -= w->depth > 0;
	w->wants_key = false;
}

static void begin_next(struct walk *w)
{
	struct level *l = innermost(w);

	if (!l)
		return;
	l->index++;
	l->key = NULL;
	w->wants_key = !l->is_array;
}

static void take_mark(struct walk *w, char c)
{
	if (c == '{' || c == '[')
		open_level(w, c == '[');
	else if (c == '}' || c == ']')
		close_level(w);
	else if (c == ',')
		begin_next(w);
}

/* Take what is behind an opening quote. Returns its size, with the closing one if it is there. */
static size_t take_string(struct walk *w, const char *text, size_t size)
{
	struct level *l = innermost(w);
	size_t n = 0;

	while (n < size && text[n] != '"')
		n += text[n] == '\\' && n + 1 < size ? 2 : 1;
	if (l && w->wants_key) {
		l->key = text;
		l->key_size = n;
	}
	w->wants_key = false;
	return n < size ? n + 1 : n;
}

/* --- the path --- */

struct path {
	char *text;
	size_t size;
	bool is_cut;
};

#define CUT "..."

static void put(struct path *p, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n && !p->is_cut; i++) {
		p->is_cut = p->size + sizeof(CUT) >= JSON_FIELD_SIZE;
		if (!p->is_cut)
			p->text[p->size++] = bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?';
	}
}

static void put_level(struct path *p, const struct level *l)
{
	char index[24];

	if (l->is_array) {
		int n = snprintf(index, sizeof(index), "[%zu]", l->index);
		put(p, index, (size_t)n);
	} else if (l->key) {
		put(p, ".", p->size > 0);
		put(p, l->key, l->key_size);
	}
}

static void put_walk(const struct walk *w, char ret[JSON_FIELD_SIZE])
{
	struct path p = { .text = ret };

	for (size_t i = 0; i < w->depth && i < ARRAY_SIZE(w->levels); i++)
		put_level(&p, &w->levels[i]);
	memcpy(ret + p.size, p.is_cut ? CUT : "", p.is_cut ? sizeof(CUT) : 1);
}

void json_field_at(const char *text, size_t size, char ret[JSON_FIELD_SIZE])
{
	struct walk w = { .depth = 0 };

	for (size_t i = 0; i < size;) {
		char c = text[i++];

		if (c == '"')
			i += take_string(&w, text + i, size - i);
		else
			take_mark(&w, c);
	}
	put_walk(&w, ret);
}
