#include "fathom/decoder.h"

#include <string.h>

#include "core/utf8.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static char *replace(char *at)
{
	memcpy(at, replacement, 3);
	return at + 3;
}

/* How many bytes from the start, of data that begins with no character, one stands for: as many
 * as could have begun one, at least one. */
static size_t measure_broken(const char *data, size_t size)
{
	for (size_t n = size < 3 ? size : 3; n > 1; n--) {
		size_t tail;

		if (utf8_span(data, n, &tail) == 0 && tail == n)
			return n;
	}
	return 1;
}

/* All of `data` but what may be the beginning of a character, of which it says the size. */
static char *decode(const char *data, size_t size, char *at, size_t *ret_tail)
{
	for (;;) {
		size_t n = utf8_span(data, size, ret_tail);

		memcpy(at, data, n);
		at += n;
		data += n;
		size -= n;
		if (size == *ret_tail)
			return at;
		n = measure_broken(data, size);
		at = replace(at);
		data += n;
		size -= n;
	}
}

/* What is held with one byte after the other, until it is a character or can not be any more;
 * at most three of them. Returns how many were used. */
static size_t finish_held(struct decoder *d, const char *data, size_t size, char **at)
{
	size_t used = 0;

	while (d->n_held > 0 && used < size) {
		size_t tail;

		d->held[d->n_held++] = data[used++];
		if (utf8_span(d->held, d->n_held, &tail) == d->n_held) {
			memcpy(*at, d->held, d->n_held);
			*at += d->n_held;
			d->n_held = 0;
		} else if (tail != d->n_held) {
			*at = replace(*at); /* for what was held; the last byte begins anew */
			d->n_held = 0;
			used--;
		}
	}
	return used;
}

size_t decoder_feed(struct decoder *d, const char *data, size_t size, char *ret)
{
	char *at = ret;
	size_t used = finish_held(d, data, size, &at);
	size_t tail;

	if (used == size)
		return (size_t)(at - ret);
	at = decode(data + used, size - used, at, &tail);
	memcpy(d->held, data + size - tail, tail);
	d->n_held = tail;
	return (size_t)(at - ret);
}

size_t decoder_end(struct decoder *d, char *ret)
{
	size_t n = d->n_held > 0 ? sizeof(replacement) - 1 : 0;

	memcpy(ret, replacement, n);
	d->n_held = 0;
	return n;
}
