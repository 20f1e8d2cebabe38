#include "client/capture.h"

#include <stdio.h>

#include "ipc/pack_write.h"

static void count_loss(struct capture_loss *l, const struct pack_entry *e)
{
	if (l->n++ == 0)
		(void)snprintf(
			l->first, sizeof(l->first), "%.*s", (int)sizeof(l->first) - 1, e->name);
}

static int on_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct capture *c = (struct capture *)sink;

	for (size_t i = 0; i < SPEC_GLOBS_MAX && c->globs[i]; i++)
		c->has_match[i] = c->has_match[i] || pack_glob_fits(c->globs[i], e->name);
	/* Init does not know the size of a file that it can not open. */
	if (e->kind == PACK_SKIP)
		count_loss(e->size > 0 ? &c->skipped : &c->unreadable, e);
	return c->begin(sink, e, err);
}

void capture_init(struct capture *c, int dir_fd, char *const *globs, uint64_t max_bytes)
{
	*c = (struct capture){ .globs = globs };
	unpack_init(&c->unpack, dir_fd, max_bytes);
	c->unpack.files_only = true; /* a link could lead its reader anywhere */
	c->begin = c->unpack.sink.begin;
	c->unpack.sink.begin = on_begin;
	pack_reader_init(&c->reader, &c->unpack.sink);
}

void capture_fini(struct capture *c)
{
	unpack_fini(&c->unpack);
}

const char *capture_find_unmatched(const struct capture *c)
{
	for (size_t i = 0; c->reader.ended && i < SPEC_GLOBS_MAX && c->globs[i]; i++) {
		if (!c->has_match[i])
			return c->globs[i];
	}
	return NULL;
}
