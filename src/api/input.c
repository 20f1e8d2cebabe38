#include "api/input.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "http/http.h"

#define ESCAPED_SIZE  6u         /* "\u0000" */
#define ENVELOPE_SIZE (1u << 10) /* for the rest of a message */
#define MESSAGE_MAX   (8u << 20) /* whatever the setting says */

/* A decoder fills as many bytes as the text has at most, and says how many; 0: it is none. */
static size_t decode_utf8(const char *text, size_t size, uint8_t *ret)
{
	memcpy(ret, text, size);
	return size;
}

static size_t decode_base64(const char *text, size_t size, uint8_t *ret)
{
	size_t n = 0;

	return base64_decode(text, size, ret, &n) == 0 ? n : 0;
}

static const struct {
	const char *name;
	size_t (*decode)(const char *text, size_t size, uint8_t *ret);
} encodings[] = {
	{ "utf8", decode_utf8 }, /* the one that is meant without a word */
	{ "base64", decode_base64 },
};

/* A text may hold NUL characters, which no word of ours has. */
static bool is_word(const json_t *text, const char *word)
{
	size_t size = strlen(word);

	return json_string_length(text) == size && memcmp(json_string_value(text), word, size) == 0;
}

static struct input parse_data(const json_t *message)
{
	const json_t *data = json_object_get(message, "data");
	const json_t *encoding = json_object_get(message, "encoding");
	size_t size = json_string_length(data);
	struct input in = { .kind = INPUT_NONE };

	if (size == 0)
		return in;
	AUTO_FREE uint8_t *bytes = xcalloc(1, size);
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		if (encoding ? is_word(encoding, encodings[i].name) : i == 0)
			in.size = encodings[i].decode(json_string_value(data), size, bytes);
	}
	if (in.size > 0) {
		in.kind = INPUT_DATA;
		in.data = TAKE(bytes);
	}
	return in;
}

size_t input_message_max(uint64_t frame_bytes)
{
	uint64_t size = frame_bytes < MESSAGE_MAX ? frame_bytes * ESCAPED_SIZE + ENVELOPE_SIZE
						  : MESSAGE_MAX;

	if (size < WS_MESSAGE_MAX)
		return WS_MESSAGE_MAX;
	return size < MESSAGE_MAX ? (size_t)size : MESSAGE_MAX;
}

struct input input_parse(const char *message, size_t size)
{
	AUTO_JSON *json = NULL;

	if (json_read_loosely(message, size, JSON_TAKES_NUL, &json, NULL) < 0)
		return (struct input){ .kind = INPUT_NONE };
	const json_t *type = json_object_get(json, "type");
	if (is_word(type, "stdin"))
		return parse_data(json);
	return (struct input){ .kind = is_word(type, "stdin_close") ? INPUT_CLOSE : INPUT_NONE };
}

void input_fini(struct input *in)
{
	free(in->data);
	*in = (struct input){ .kind = INPUT_NONE };
}
