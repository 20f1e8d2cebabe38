#include "api/input.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

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
	{ "utf8", decode_utf8 },
	{ "base64", decode_base64 },
};

static struct input parse_data(const json_t *message)
{
	const json_t *data = json_object_get(message, "data");
	const json_t *encoding = json_object_get(message, "encoding");
	const char *name = encoding ? json_string_value(encoding) : "utf8";
	size_t size = json_string_length(data);
	struct input in = { .kind = INPUT_NONE };

	if (!name || size == 0)
		return in;
	AUTO_FREE uint8_t *bytes = xcalloc(1, size);
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		if (streq(encodings[i].name, name))
			in.size = encodings[i].decode(json_string_value(data), size, bytes);
	}
	if (in.size > 0) {
		in.kind = INPUT_DATA;
		in.data = TAKE(bytes);
	}
	return in;
}

struct input input_parse(const char *message, size_t size)
{
	AUTO_JSON *json = NULL;

	if (json_read(message, size, &json, NULL) < 0)
		return (struct input){ .kind = INPUT_NONE };
	const char *type = json_string_value(json_object_get(json, "type"));
	if (type && streq(type, "stdin"))
		return parse_data(json);
	return (struct input){ .kind = type && streq(type, "stdin_close") ? INPUT_CLOSE
									  : INPUT_NONE };
}

void input_fini(struct input *in)
{
	free(in->data);
	*in = (struct input){ .kind = INPUT_NONE };
}
