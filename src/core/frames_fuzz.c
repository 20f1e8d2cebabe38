/* Input: a byte that says how output arrives, then the output. It is cut the way the pump does
 * it, while it grows; every message must be JSON of a permitted size, and together they must
 * be what went in. */
#include "core/frames.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/shared.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(bool cond)
{
	if (!cond)
		abort();
}

static size_t decode_base64(const char *text, unsigned char *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = 0;

	for (; *text; text += 4) {
		unsigned bits = 0;
		size_t n_pads = (size_t)(text[2] == '=') + (text[3] == '=');

		for (size_t i = 0; i < 4; i++) {
			const char *digit = strchr(digits, text[i]);

			insist(text[i] && (digit || i >= 4 - n_pads));
			bits = bits << 6 | (digit ? (unsigned)(digit - digits) : 0);
		}
		for (size_t i = 0; i < 3 - n_pads; i++)
			to[n++] = (unsigned char)(bits >> (16 - 8 * i));
	}
	return n;
}

/* The message says exactly these bytes. */
static void check_message(const uint8_t *data, size_t size, bool is_text)
{
	static unsigned char decoded[FRAMES_CHUNK_MAX + 3];
	struct frames_source f = { .kind = FRAME_STDOUT, .is_text = is_text, .seq = 1 };

	f.data = (const char *)data;
	f.size = size;
	struct shared *message = frames_encode(&f);
	insist(message->size <= STREAM_MESSAGE_MAX);
	json_t *frame = json_loadb(shared_data(message), message->size, JSON_ALLOW_NUL, NULL);
	insist(frame != NULL);
	const json_t *value = json_object_get(frame, "data");
	const char *encoding = json_string_value(json_object_get(frame, "encoding"));
	insist(streq(encoding, is_text ? "utf8" : "base64"));
	if (is_text) {
		insist(json_string_length(value) == size);
		insist(memcmp(json_string_value(value), data, size) == 0);
	} else {
		insist(decode_base64(json_string_value(value), decoded) == size);
		insist(memcmp(decoded, data, size) == 0);
	}
	json_decref(frame);
	shared_unref(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? data[0] : 0;
	size_t done = 1;
	size_t there = 1;

	while (done < size) {
		bool is_text = false;
		bool is_last;

		there += step && there + step * step < size ? step * step : size - there;
		is_last = there == size;
		while (done < there) {
			size_t n = frames_cut(data + done, there - done, is_last, &is_text);

			insist(n <= there - done && n <= FRAMES_CHUNK_MAX && (n > 0 || !is_last));
			insist(n > 0 || there - done <= 3);
			if (n == 0)
				break;
			check_message(data + done, n, is_text);
			done += n;
		}
	}
	return 0;
}
