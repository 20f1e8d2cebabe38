#include "ipc/cur.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void cur_init(struct cur *c, const void *data, size_t size)
{
	c->at = data;
	c->end = c->at + size;
	c->bad = false;
}

static const uint8_t *take_bytes(struct cur *c, size_t size)
{
	const uint8_t *at = c->at;

	if (c->bad || (size_t)(c->end - c->at) < size) {
		c->bad = true;
		return NULL;
	}
	c->at += size;
	return at;
}

uint8_t cur_u8(struct cur *c)
{
	const uint8_t *p = take_bytes(c, 1);

	return p ? *p : 0;
}

uint32_t cur_u32(struct cur *c)
{
	const uint8_t *p = take_bytes(c, sizeof(uint32_t));
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

uint64_t cur_u64(struct cur *c)
{
	const uint8_t *p = take_bytes(c, sizeof(uint64_t));
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

bool cur_bool(struct cur *c)
{
	uint8_t v = cur_u8(c);

	if (v > 1)
		c->bad = true;
	return v == 1;
}

uint64_t cur_u64_max(struct cur *c, uint64_t max)
{
	uint64_t v = cur_u64(c);

	if (v > max)
		c->bad = true;
	return c->bad ? 0 : v;
}

/* The bytes of a string field, checked; NULL when it is bad. */
static const uint8_t *take_string(struct cur *c, size_t max, size_t *ret_size)
{
	uint32_t size = cur_u32(c);

	if (size > max)
		c->bad = true;
	const uint8_t *p = take_bytes(c, size);
	if (p && memchr(p, 0, size))
		c->bad = true;
	if (c->bad)
		return NULL;
	*ret_size = size;
	return p;
}

char *cur_str(struct cur *c, size_t max)
{
	size_t size = 0;
	const uint8_t *p = take_string(c, max, &size);

	if (!p)
		return NULL;
	char *s = malloc(size + 1);
	if (!s) {
		c->bad = true;
		return NULL;
	}
	memcpy(s, p, size);
	s[size] = '\0';
	return s;
}

void cur_str_into(struct cur *c, char *buf, size_t buf_size)
{
	size_t size = 0;
	const uint8_t *p = take_string(c, buf_size - 1, &size);

	if (p)
		memcpy(buf, p, size);
	buf[size] = '\0';
}

int cur_end(const struct cur *c)
{
	return c->bad || c->at != c->end ? -EBADMSG : 0;
}

void put_init(struct put *p, size_t max)
{
	*p = (struct put){ .max = max };
}

void put_fini(struct put *p)
{
	if (p->data)
		explicit_bzero(p->data, p->room);
	free(p->data);
	*p = (struct put){ 0 };
}

/* Make room for `size` more bytes. Growing copies and wipes by hand: realloc
 * would leave the old bytes behind on the heap. */
static bool reserve(struct put *p, size_t size)
{
	if (p->bad || size > p->max - p->size) {
		p->bad = true;
		return false;
	}
	if (p->size + size <= p->room)
		return true;

	size_t room = p->room ? p->room : 256;
	while (room < p->size + size)
		room *= 2;
	uint8_t *grown = malloc(room);
	if (!grown)
		abort();
	if (p->data) {
		memcpy(grown, p->data, p->size);
		explicit_bzero(p->data, p->room);
		free(p->data);
	}
	p->data = grown;
	p->room = room;
	return true;
}

void put_bytes(struct put *p, const void *data, size_t size)
{
	if (!reserve(p, size))
		return;
	if (size)
		memcpy(p->data + p->size, data, size);
	p->size += size;
}

void put_u8(struct put *p, uint8_t v)
{
	put_bytes(p, &v, sizeof(v));
}

void put_u32(struct put *p, uint32_t v)
{
	uint32_t le = htole32(v);

	put_bytes(p, &le, sizeof(le));
}

void put_u64(struct put *p, uint64_t v)
{
	uint64_t le = htole64(v);

	put_bytes(p, &le, sizeof(le));
}

void put_str(struct put *p, const char *s)
{
	size_t size = strlen(s);

	if (size > UINT32_MAX) {
		p->bad = true;
		return;
	}
	put_u32(p, (uint32_t)size);
	put_bytes(p, s, size);
}

int put_end(const struct put *p)
{
	return p->bad ? -E2BIG : 0;
}
