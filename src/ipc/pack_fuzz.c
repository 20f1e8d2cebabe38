/* Input: a byte that says in which chunks to read, then a pack stream. The sink
 * checks that it is told of every entry in order, whole, and under a clean name. */
#include "ipc/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct checker {
	struct pack_sink sink;
	bool in_entry;
	bool is_time;
	uint64_t left;
	uint64_t n_entries;
};

static void insist(bool cond)
{
	if (!cond)
		abort();
}

static int on_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct checker *c = (struct checker *)sink;

	insist(!c->in_entry && e->kind != PACK_END);
	insist(pack_name_is_clean(e->name) && e->name[0] != '/' && !strstr(e->name, "//"));
	insist(e->kind == PACK_TIME ? e->mode < 1000000000 : (e->mode & ~0777u) == 0);
	insist((e->kind != PACK_LINK && e->kind != PACK_TWIN) || e->size <= PACK_NAME_MAX);
	c->in_entry = true;
	c->is_time = e->kind == PACK_TIME;
	c->left = pack_has_data(e->kind) ? e->size : 0;
	/* A sink may fail, and must then hear no more. */
	return e->size == 0xbad ? err_set(err, -ENOSPC, "full") : 0;
}

static int on_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	struct checker *c = (struct checker *)sink;

	(void)err;
	insist(c->in_entry && size > 0 && size <= c->left);
	for (size_t i = 0; i < size; i++)
		*(volatile const uint8_t *)&data[i]; /* all of it can be read */
	c->left -= size;
	return 0;
}

static int on_finish(struct pack_sink *sink, struct err *err)
{
	struct checker *c = (struct checker *)sink;

	(void)err;
	insist(c->in_entry && c->left == 0);
	c->in_entry = false;
	c->n_entries += !c->is_time;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pack_reader reader;
	struct checker c = { .sink = { on_begin, on_data, on_finish } };
	struct err err = { 0 };
	size_t step = size ? data[0] : 0;
	int r = 0;

	pack_reader_init(&reader, &c.sink);
	for (size_t at = 1; at < size && r == 0;) {
		size_t n = step && step < size - at ? step : size - at;

		r = pack_feed(&reader, data + at, n, &err);
		at += n;
	}
	if (r < 0) {
		insist(err.code == r && err.text[0]);
		uint64_t n_before = c.n_entries;
		insist(pack_feed(&reader, data, size, &err) == r && c.n_entries == n_before);
	}
	int ended = pack_end(&reader, &err);
	insist(ended == 0 ? r == 0 && !c.in_entry && c.n_entries == reader.n_entries
			  : ended == -EBADMSG);
	return 0;
}
