#include "core/frames.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/shared.h"
#include "core/utf8.h"

/* Room in a message for all but the data of output: names, quotes and a number. */
#define ENVELOPE_MAX 128u
#define DATA_MAX     (STREAM_MESSAGE_MAX - ENVELOPE_MAX)

/* How far before the end of a full chunk a newline is looked for to cut after. */
#define LINE_REACH 4096u

/* Text before bytes that are not is a frame of its own when it has this size: then a
 * guest that mixes both can not make more than two frames of so much. */
#define SPLIT_MIN 1024u

/* --- JSON strings --- */

/* What follows the backslash; 'u' stands for four digits, 0 for no escape. */
static const char escapes[256] = {
	"uuuuuuuubtnufruuuuuuuuuuuuuuuuuu" /* the control characters */
	"\0\0\"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\\"
};

#define BYTES(b) (UINT64_C(0x0101010101010101) * (b))

static uint64_t load_word(const unsigned char *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return le64toh(word);
}

static uint64_t find_zeros(uint64_t word)
{
	return (word - BYTES(1)) & ~word & BYTES(0x80);
}

static uint64_t find_controls(uint64_t word)
{
	return (word - BYTES(0x20)) & ~word & BYTES(0x80);
}

/* The high bit of each of eight bytes that is a control character, a quote or a backslash;
 * perhaps also that of one behind such a byte, never of one before the first. */
static uint64_t find_escapes(uint64_t word)
{
	return find_controls(word) | find_zeros(word ^ BYTES('"')) | find_zeros(word ^ BYTES('\\'));
}

/* Without a branch: what comes next in a guest's output can not be predicted. */
static size_t escape_size(unsigned char byte)
{
	return 1u + (escapes[byte] != 0) + 4u * (escapes[byte] == 'u');
}

static size_t count_escaped(const unsigned char *data, size_t size)
{
	size_t total = size;
	size_t at = 0;

	for (; size - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
		uint64_t found = find_escapes(load_word(data + at));

		for (; found; found &= found - 1)
			total += escape_size(data[at + (size_t)__builtin_ctzll(found) / 8]) - 1;
	}
	for (; at < size; at++)
		total += escape_size(data[at]) - 1;
	return total;
}

static char *put_escaped_byte(char *out, unsigned char byte)
{
	static const char hex[] = "0123456789abcdef";

	if (!escapes[byte]) {
		*out++ = (char)byte;
		return out;
	}
	*out++ = '\\';
	*out++ = escapes[byte];
	if (escapes[byte] != 'u')
		return out;
	*out++ = '0';
	*out++ = '0';
	*out++ = hex[byte >> 4];
	*out++ = hex[byte & 15];
	return out;
}

/* `out` has room for exactly what count_escaped() said. A word is copied whole even when not all
 * of it is due: as much room is left as there are bytes to come. */
static char *put_escaped(char *out, const unsigned char *data, size_t size)
{
	size_t at = 0;

	while (size - at >= sizeof(uint64_t)) {
		uint64_t found = find_escapes(load_word(data + at));
		size_t n = found ? (size_t)__builtin_ctzll(found) / 8 : sizeof(uint64_t);

		memcpy(out, data + at, sizeof(uint64_t));
		out += n;
		at += n;
		if (found)
			out = put_escaped_byte(out, data[at++]);
	}
	for (; at < size; at++)
		out = put_escaped_byte(out, data[at]);
	return out;
}

/* --- base64 --- */

static size_t count_base64(size_t size)
{
	return (size + 2) / 3 * 4;
}

static char *put_base64(char *out, const unsigned char *data, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t at = 0;

	for (; size - at >= 3; at += 3) {
		unsigned bits = (unsigned)data[at] << 16 | data[at + 1] << 8 | data[at + 2];

		*out++ = digits[bits >> 18];
		*out++ = digits[bits >> 12 & 63];
		*out++ = digits[bits >> 6 & 63];
		*out++ = digits[bits & 63];
	}
	if (at == size)
		return out;
	bool has_two = size - at == 2;
	unsigned bits = (unsigned)data[at] << 16 | (has_two ? data[at + 1] << 8 : 0);
	*out++ = digits[bits >> 18];
	*out++ = digits[bits >> 12 & 63];
	*out++ = has_two ? digits[bits >> 6 & 63] : '=';
	*out++ = '=';
	return out;
}

/* --- cutting --- */

/* At least as many control characters as there are: those that grow to more than two. */
static size_t bound_controls(const unsigned char *data, size_t size)
{
	size_t total = size % sizeof(uint64_t);

	for (size_t at = 0; size - at >= sizeof(uint64_t); at += sizeof(uint64_t))
		total += (find_controls(load_word(data + at)) >> 7) * BYTES(1) >> 56;
	return total;
}

/* How much of `size` bytes of text fits into a message. */
static size_t fit_text(const unsigned char *data, size_t size)
{
	size_t used = 0;
	size_t end = 0; /* of the last whole character */

	if (2 * size + 4 * bound_controls(data, size) <= DATA_MAX ||
		count_escaped(data, size) <= DATA_MAX)
		return size;
	for (size_t at = 0; used <= DATA_MAX; at++) {
		if ((data[at] & 0xc0) != 0x80)
			end = at;
		used += escape_size(data[at]);
	}
	return end;
}

/* Where to end text that could go on behind `size`: after a line, if one ends near. */
static size_t end_of_lines(const unsigned char *data, size_t size)
{
	size_t reach = size > 2 * LINE_REACH ? LINE_REACH : size / 2;
	const unsigned char *newline = memrchr(data + size - reach, '\n', reach);

	return newline ? (size_t)(newline - data) + 1 : size;
}

/* Where to end a chunk that is not text from `bad` on: after the line in question when
 * the rest of what is there is text again, else not inside a character. */
static size_t end_of_binary(const unsigned char *data, size_t size, size_t bad)
{
	const unsigned char *newline = memchr(data + bad, '\n', size - bad);
	size_t tail;

	if (newline) {
		size_t end = (size_t)(newline - data) + 1;

		if (end + utf8_span(data + end, size - end, &tail) + tail == size)
			return end;
	}
	return size - utf8_tail(data, size);
}

size_t frames_cut(const void *data, size_t size, bool is_last, bool *ret_is_text)
{
	size_t limit = size < FRAMES_CHUNK_MAX ? size : FRAMES_CHUNK_MAX;
	size_t tail;
	size_t span = utf8_span(data, limit, &tail);
	bool is_split = span + tail < limit; /* by bytes that are not text */

	*ret_is_text = span > 0 && (!is_split || span >= SPLIT_MIN);
	if (*ret_is_text) {
		size_t fits = fit_text(data, span);

		return fits < span || is_split || limit < size ? end_of_lines(data, fits) : fits;
	}
	if (is_split)
		return end_of_binary(data, limit, span);
	return is_last ? limit : 0;
}

/* --- events --- */

bool frames_name_is_valid(const char *name)
{
	size_t size = strlen(name);

	return size > 0 && size <= FRAMES_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       size;
}

static bool is_json(const char *text, size_t size, size_t flags)
{
	json_t *value = json_loadb(text, size, flags, NULL);
	bool ok = value != NULL;

	json_decref(value);
	return ok;
}

int frames_format_event(const char *name, const char *data, char **ret)
{
	size_t size = strlen(data);

	if (size > FRAMES_DATA_MAX)
		return -E2BIG;
	if (!frames_name_is_valid(name) || !is_json(data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL))
		return -EINVAL;
	char *text = NULL;
	if (asprintf(&text, "{\"event\":\"%s\",\"data\":%s}", name, data) < 0)
		return -ENOMEM;
	*ret = text;
	return 0;
}

/* --- messages --- */

/* A message of `head`, room for `size` bytes that the caller fills from `*ret_at` on, and
 * what always comes last. */
static struct shared *begin_message(
	const char *head, size_t size, const char *close, uint64_t seq, char **ret_at)
{
	char last[48];
	size_t head_size = strlen(head);
	int last_size = snprintf(last, sizeof(last), "%s,\"seq\":%" PRIu64 "}", close, seq);
	struct shared *m = shared_new(head_size + size + (size_t)last_size);
	char *at = shared_data(m);

	memcpy(at, head, head_size);
	*ret_at = at + head_size;
	memcpy(*ret_at + size, last, (size_t)last_size);
	return m;
}

/* A whole message from short text. */
static struct shared *finish_message(const char *head, const char *close, uint64_t seq)
{
	char *at;

	return begin_message(head, 0, close, seq, &at);
}

static struct shared *encode_output(const struct frames_source *f)
{
	const unsigned char *data = (const unsigned char *)f->data;
	char head[ENVELOPE_MAX];
	char *at;
	size_t tail;
	bool is_text = f->is_text && utf8_span(data, f->size, &tail) == f->size;
	size_t size = is_text ? count_escaped(data, f->size) : 0;

	if (!is_text || size > DATA_MAX) {
		is_text = false;
		size = count_base64(f->size);
	}
	(void)snprintf(head, sizeof(head), "{\"type\":\"%s\",\"encoding\":\"%s\",\"data\":\"",
		f->kind == FRAME_STDOUT ? "stdout" : "stderr", is_text ? "utf8" : "base64");
	struct shared *m = begin_message(head, size, "\"", f->seq, &at);
	(void)(is_text ? put_escaped : put_base64)(at, data, f->size);
	return m;
}

static struct shared *encode_event(const struct frames_source *f)
{
	char *at;

	/* Without flags only an object or an array is JSON. */
	if (f->size < 3 || f->data[0] != '{' || f->data[f->size - 1] != '}' ||
		!is_json(f->data, f->size, JSON_ALLOW_NUL))
		return NULL;
	size_t size = f->size - 2;
	struct shared *m = begin_message("{\"type\":\"event\",", size, "", f->seq, &at);
	memcpy(at, f->data + 1, size);
	return m;
}

static struct shared *encode_truncated(const struct frames_source *f)
{
	char reason[FRAMES_NAME_MAX + 1] = "";
	char head[ENVELOPE_MAX];

	if (f->size > FRAMES_NAME_MAX)
		return NULL;
	memcpy(reason, f->data, f->size);
	if (!frames_name_is_valid(reason) || strlen(reason) != f->size)
		return NULL;
	(void)snprintf(head, sizeof(head), "{\"type\":\"truncated\",\"reason\":\"%s", reason);
	return finish_message(head, "\"", f->seq);
}

static struct shared *encode_heartbeat(const struct frames_source *f)
{
	char stamp[DATE_SIZE + 1];
	char head[ENVELOPE_MAX];

	date_format(f->time_ns, stamp);
	(void)snprintf(head, sizeof(head), "{\"type\":\"heartbeat\",\"ts\":\"%s", stamp);
	return finish_message(head, "\"", f->seq);
}

typedef struct shared *encode_fn(const struct frames_source *f);

static encode_fn *const encoders[] = {
	[FRAME_STDOUT] = encode_output,
	[FRAME_STDERR] = encode_output,
	[FRAME_EVENT] = encode_event,
	[FRAME_HEARTBEAT] = encode_heartbeat,
	[FRAME_TRUNCATED] = encode_truncated,
};

struct shared *frames_encode(const struct frames_source *f)
{
	return encoders[f->kind](f);
}

struct shared *frames_encode_resume(uint64_t wanted, uint64_t seq)
{
	char head[2 * ENVELOPE_MAX];

	(void)snprintf(head, sizeof(head),
		"{\"type\":\"event\",\"event\":\"resume\",\"data\":{\"requested_from_seq\":%" PRIu64
		",\"delivered_from_seq\":%" PRIu64 ",\"lost_count\":%" PRIu64 "}",
		wanted, seq, seq > wanted ? seq - wanted : 0);
	return finish_message(head, "", seq);
}
