/* Reading and writing the payload of one message. Numbers are little-endian,
 * strings carry their length and no terminator on the wire.
 *
 * A reader poisons itself at the first thing that is wrong: handlers read all
 * fields and ask once, with cur_end(), whether every one of them was good and
 * nothing was left over. Nothing read before that may be acted upon. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cur {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

void cur_init(struct cur *c, const void *data, size_t size);
uint8_t cur_u8(struct cur *c);
bool cur_bool(struct cur *c); /* travels as 0 or 1 and as nothing else */
uint32_t cur_u32(struct cur *c);
uint64_t cur_u64(struct cur *c);

/* A number that must not pass `max`. */
uint64_t cur_u64_max(struct cur *c, uint64_t max);

/* A string of at most `max` bytes without NUL inside. It is copied to the heap,
 * terminated; the caller frees it. NULL once the cursor is bad. */
char *cur_str(struct cur *c, size_t max);

/* The same into caller's storage of `size` bytes, the terminator included. */
void cur_str_into(struct cur *c, char *buf, size_t size);

/* 0 when every field was good and all bytes were read, else -EBADMSG. */
int cur_end(const struct cur *c);

/* The writer: grows up to `max`, poisons itself beyond. */
struct put {
	uint8_t *data;
	size_t size;
	size_t room;
	size_t max;
	bool bad;
};

void put_init(struct put *p, size_t max);

/* Release; the memory is wiped first, since a payload may carry environment. */
void put_fini(struct put *p);
void put_u8(struct put *p, uint8_t v);
void put_u32(struct put *p, uint32_t v);
void put_u64(struct put *p, uint64_t v);
void put_str(struct put *p, const char *s);
void put_bytes(struct put *p, const void *data, size_t size);

/* 0, or -E2BIG when the payload passed its limit. */
int put_end(const struct put *p);
