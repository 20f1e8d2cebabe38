/* Pack streams for the tests of this directory, good and bad ones. */
#pragma once
#include <stdio.h>
#include <string.h>

#include "ipc/cur.h"
#include "ipc/pack.h"

#define SAMPLE_MAX (4u << 20)

struct sample {
	struct put out;
	uint64_t n_entries;
};

static inline void sample_init(struct sample *s)
{
	*s = (struct sample){ 0 };
	put_init(&s->out, SAMPLE_MAX);
}

static inline void sample_fini(struct sample *s)
{
	put_fini(&s->out);
}

#define SAMPLE(name)                                                                               \
	CLEANUP(sample_fini) struct sample name;                                                   \
	sample_init(&name)

/* A head that says what it is told to, be it true or not. */
static inline void sample_head(
	struct sample *s, enum pack_kind kind, const char *name, uint32_t mode, uint64_t size)
{
	static uint8_t buf[PACK_HEAD_SIZE + PACK_NAME_MAX];
	static struct pack_entry e;

	e = (struct pack_entry){ .kind = kind, .mode = mode, .size = size };
	(void)snprintf(e.name, sizeof(e.name), "%s", name);
	put_bytes(&s->out, buf, pack_encode(&e, buf));
	s->n_entries += kind != PACK_END && kind != PACK_TIME;
}

static inline void sample_file(struct sample *s, const char *name, const char *text)
{
	sample_head(s, PACK_FILE, name, 0644, strlen(text));
	put_bytes(&s->out, text, strlen(text));
}

static inline void sample_link(struct sample *s, const char *name, const char *target)
{
	sample_head(s, PACK_LINK, name, 0777, strlen(target));
	put_bytes(&s->out, target, strlen(target));
}

static inline void sample_dir(struct sample *s, const char *name, uint32_t mode)
{
	sample_head(s, PACK_DIR, name, mode, 0);
}

static inline void sample_end(struct sample *s)
{
	sample_head(s, PACK_END, "", 0, s->n_entries);
}
