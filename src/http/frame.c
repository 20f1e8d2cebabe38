#include "http/frame.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define KEY_SIZE 24 /* 16 bytes in base64 */

static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/* How long the head is, as far as its second byte says. */
static unsigned head_size(const struct frame *f)
{
	static const unsigned more[] = { [126] = 2, [127] = 8 };
	unsigned size = f->head[1] & 0x7f;

	return f->n_head < 2 ? 2 : 2 + (size < 126 ? 0 : more[size]) + 4;
}

static int check_start(const struct frame *f, bool in_message)
{
	static const bool known[16] = { [FRAME_MORE] = true,
		[FRAME_TEXT] = true,
		[FRAME_BINARY] = true,
		[FRAME_CLOSE] = true,
		[FRAME_PING] = true,
		[FRAME_PONG] = true };
	unsigned opcode = f->head[0] & 0x0f;
	bool is_control = opcode >= FRAME_CLOSE;

	if (!known[opcode] || f->head[0] & 0x70 || !(f->head[1] & 0x80))
		return -FRAME_CODE_PROTOCOL;
	if (is_control && (!(f->head[0] & 0x80) || (f->head[1] & 0x7f) > FRAME_CONTROL_MAX))
		return -FRAME_CODE_PROTOCOL;
	if (!is_control && (opcode == FRAME_MORE) != in_message)
		return -FRAME_CODE_PROTOCOL;
	return 0;
}

static int finish_head(struct frame *f)
{
	unsigned n = f->n_head - 4 - 2; /* bytes of a long size */
	uint64_t size = n ? 0 : f->head[1] & 0x7f;

	for (unsigned i = 0; i < n; i++)
		size = size << 8 | f->head[2 + i];
	if (size >> 63 || (n == 2 && size < 126) || (n == 8 && size < 65536))
		return -FRAME_CODE_PROTOCOL;
	f->is_final = f->head[0] & 0x80;
	f->opcode = f->head[0] & 0x0f;
	f->left = size;
	f->is_read = true;
	return 0;
}

int frame_read_head(struct frame *f, const char *data, size_t size, bool in_message)
{
	int taken = 0;

	while (!f->is_read && (size_t)taken < size) {
		f->head[f->n_head++] = (unsigned char)data[taken++];
		int r = 0;
		if (f->n_head == 2)
			r = check_start(f, in_message);
		if (r == 0 && f->n_head > 2 && f->n_head == head_size(f))
			r = finish_head(f);
		if (r < 0)
			return r;
	}
	return taken;
}

size_t frame_read_payload(struct frame *f, const char *data, size_t size, char *ret)
{
	const unsigned char *mask = f->head + f->n_head - 4;
	size_t n = f->left < size ? (size_t)f->left : size;

	for (size_t i = 0; i < n; i++)
		ret[i] = (char)(data[i] ^ mask[(f->turn + i) & 3]);
	f->turn = (unsigned)((f->turn + n) & 3);
	f->left -= n;
	return n;
}

size_t frame_write_head(enum frame_opcode opcode, size_t size, unsigned char *end)
{
	size_t n_size = size < 126 ? 0 : size < 65536 ? 2 : 8;
	unsigned char *at = end - 2 - n_size;

	at[0] = (unsigned char)(0x80 | opcode);
	at[1] = (unsigned char)(n_size == 0 ? size : n_size == 2 ? 126 : 127);
	for (size_t i = 0; i < n_size; i++)
		at[2 + i] = (unsigned char)((uint64_t)size >> 8 * (n_size - 1 - i));
	return 2 + n_size;
}

bool frame_is_valid_code(unsigned code)
{
	return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
	       (code >= 3000 && code <= 4999);
}

/* The number of bytes of the character at `s`, or 0. */
static size_t character_size(const unsigned char *s, size_t size)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (n == 0 || n > size || s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	bool is_bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
	return is_bad ? 0 : n;
}

bool frame_is_utf8(const char *text, size_t size)
{
	for (size_t i = 0; i < size;) {
		size_t n = character_size((const unsigned char *)text + i, size - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

int frame_accept_key(const char *key, char ret[FRAME_ACCEPT_SIZE])
{
	unsigned char raw[KEY_SIZE];
	unsigned char hash[SHA_DIGEST_LENGTH];
	char text[KEY_SIZE + sizeof(guid)];

	if (strlen(key) != KEY_SIZE || key[KEY_SIZE - 3] == '=' ||
		!streq(key + KEY_SIZE - 2, "==") ||
		EVP_DecodeBlock(raw, (const unsigned char *)key, KEY_SIZE) != 18)
		return -EBADMSG;
	(void)snprintf(text, sizeof(text), "%s%s", key, guid);
	if (!EVP_Digest(text, KEY_SIZE + sizeof(guid) - 1, hash, NULL, EVP_sha1(), NULL))
		return -EIO;
	(void)EVP_EncodeBlock((unsigned char *)ret, hash, sizeof(hash));
	return 0;
}
