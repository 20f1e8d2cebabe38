/* WebSocket frames (RFC 6455) as a server reads and writes them; no extensions. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_MAX    14u /* of a client's: 2, a size of 8, a mask of 4 */
#define FRAME_OUT_MAX     10u /* of ours, which has no mask */
#define FRAME_CONTROL_MAX 125u

enum frame_opcode {
	FRAME_MORE = 0, /* continues a message */
	FRAME_TEXT = 1,
	FRAME_BINARY = 2,
	FRAME_CLOSE = 8,
	FRAME_PING = 9,
	FRAME_PONG = 10,
};

/* Codes of a close frame. */
enum frame_code {
	FRAME_CODE_NORMAL = 1000,
	FRAME_CODE_PROTOCOL = 1002,
	FRAME_CODE_NONE = 1005, /* never sent */
	FRAME_CODE_TEXT = 1007,
	FRAME_CODE_TOO_BIG = 1009,
	FRAME_CODE_RESTART = 1012,
	FRAME_CODE_LATER = 1013,
};

/* The head of one frame; all zero before each. */
struct frame {
	unsigned char head[FRAME_HEAD_MAX];
	unsigned n_head; /* bytes of it that came */
	bool is_read;    /* the rest is known */
	bool is_final;
	enum frame_opcode opcode;
	uint64_t left; /* bytes of the payload that are still to come */
	unsigned turn; /* of the mask */
};

/* Take bytes of the head from `data`; the number taken. When the frame is_read, its payload
 * follows. A head that breaks the rules returns minus an enum frame_code. `in_message` says
 * that a message has begun with an earlier frame. */
int frame_read_head(struct frame *f, const char *data, size_t size, bool in_message);

/* Take up to `size` bytes of payload from `data` to `ret`, unmasked; the number taken. */
size_t frame_read_payload(struct frame *f, const char *data, size_t size, char *ret);

static inline bool frame_is_control(const struct frame *f)
{
	return f->opcode >= FRAME_CLOSE;
}

/* Write the head of a frame with `size` bytes into the bytes before `end`; its length. */
size_t frame_write_head(enum frame_opcode opcode, size_t size, unsigned char *end);

/* Whether a peer may close with this code. */
bool frame_is_valid_code(unsigned code);

/* Whether it is UTF-8, with no surrogates and nothing written longer than need be. */
bool frame_is_utf8(const char *text, size_t size);

/* The answer to a Sec-WebSocket-Key, 28 characters and a NUL; -EBADMSG when it is none. */
#define FRAME_ACCEPT_SIZE 29
int frame_accept_key(const char *key, char ret[FRAME_ACCEPT_SIZE]);
