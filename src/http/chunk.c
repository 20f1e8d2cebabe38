#include "http/chunk.h"

#include <errno.h>
#include <limits.h>

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int end_of_size(struct chunk *c, char byte)
{
	if (c->n_digits == 0)
		return -EBADMSG;
	if (byte == '\r')
		c->state = CHUNK_SIZE_LF;
	else if (byte == ';' || byte == ' ' || byte == '\t')
		c->state = CHUNK_EXTENSION;
	else
		return -EBADMSG;
	return 0;
}

static int on_size(struct chunk *c, char byte)
{
	int digit = digit_of(byte);

	if (digit < 0)
		return end_of_size(c, byte);
	if (c->n_digits++ == 15) /* so that sizes can be added without a care */
		return -EBADMSG;
	c->left = c->left << 4 | (unsigned)digit;
	return 0;
}

static int on_extension(struct chunk *c, char byte)
{
	if (byte == '\r')
		c->state = CHUNK_SIZE_LF;
	return byte == '\n' || ++c->n_line > CHUNK_LINE_MAX ? -EBADMSG : 0;
}

static int on_size_lf(struct chunk *c, char byte)
{
	c->state = c->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
	c->n_digits = 0;
	c->n_line = 0;
	return byte == '\n' ? 0 : -EBADMSG;
}

static int on_data_cr(struct chunk *c, char byte)
{
	c->state = CHUNK_DATA_LF;
	return byte == '\r' ? 0 : -EBADMSG;
}

static int on_data_lf(struct chunk *c, char byte)
{
	c->state = CHUNK_SIZE;
	return byte == '\n' ? 0 : -EBADMSG;
}

static int on_trailer(struct chunk *c, char byte)
{
	if (byte == '\n' || ++c->n_trailer > CHUNK_TRAILER_MAX)
		return -EBADMSG;
	if (byte == '\r')
		c->state = CHUNK_TRAILER_LF;
	else
		c->n_line++;
	return 0;
}

static int on_trailer_lf(struct chunk *c, char byte)
{
	c->state = c->n_line == 0 ? CHUNK_END : CHUNK_TRAILER;
	c->n_line = 0;
	return byte == '\n' ? 0 : -EBADMSG;
}

static int (*const on_byte[])(struct chunk *c, char byte) = {
	[CHUNK_SIZE] = on_size,
	[CHUNK_EXTENSION] = on_extension,
	[CHUNK_SIZE_LF] = on_size_lf,
	[CHUNK_DATA_CR] = on_data_cr,
	[CHUNK_DATA_LF] = on_data_lf,
	[CHUNK_TRAILER] = on_trailer,
	[CHUNK_TRAILER_LF] = on_trailer_lf,
};

int chunk_read(
	struct chunk *c, const char *data, size_t size, const char **ret_piece, size_t *ret_size)
{
	size_t i = 0;

	if (size > INT_MAX)
		size = INT_MAX;
	while (i < size && c->state != CHUNK_DATA && c->state != CHUNK_END)
		if (on_byte[c->state](c, data[i++]) < 0)
			return -EBADMSG;
	size_t n = 0;
	if (c->state == CHUNK_DATA)
		n = c->left < size - i ? (size_t)c->left : size - i;
	*ret_piece = data + i;
	*ret_size = n;
	c->left -= n;
	if (c->state == CHUNK_DATA && c->left == 0)
		c->state = CHUNK_DATA_CR;
	return (int)(i + n);
}
