/* A guest's bytes as text: UTF-8 in which what is none was replaced by U+FFFD, one for each
 * longest beginning of a character, as browsers and Python do. The protocol has only text, and
 * a character that comes in two pieces must not be sent as two halves: its beginning is held
 * until the rest has come. */
#pragma once
#include <stddef.h>

struct decoder {
	char held[4];
	size_t n_held;
};

/* Room for the text of `n` bytes and of those that are held. */
#define DECODER_ROOM(n) (3 * ((n) + 4))

/* Returns how many bytes of text were written to `ret`. Begins with a decoder of zeros. */
size_t decoder_feed(struct decoder *d, const char *data, size_t size, char *ret);

/* Nothing follows: what is held is no character. */
size_t decoder_end(struct decoder *d, char *ret);
