/* What a subscriber of a stream sends to an interactive run. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum input_kind {
	INPUT_NONE, /* not for us, or malformed: to be ignored, as the protocol has it */
	INPUT_DATA,
	INPUT_CLOSE,
};

struct input {
	enum input_kind kind;
	void *data; /* of INPUT_DATA: at least one byte; for input_fini() */
	size_t size;
};

/* The most bytes of such a message where a frame's data may have `frame_bytes`: as many when each
 * is written as "\u0000", with room for the rest. Data that is too long and a message that is not
 * is cut, so it is never less than what any WebSocket takes. */
size_t input_message_max(uint64_t frame_bytes);

/* {"type":"stdin","encoding":"utf8"|"base64","data":"..."}, where text is meant without an
 * encoding, or {"type":"stdin_close"}. */
struct input input_parse(const char *message, size_t size);
void input_fini(struct input *in);
