#include "base/json_write.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define FIRST_ROOM 512u
#define NUMBER_MAX 64u

struct writer {
	char *text;
	size_t size, room;
	unsigned flags, digits;
};

struct member {
	const char *key;
	const json_t *value;
};

static void write_value(struct writer *w, const json_t *value);

/* Room for `n` bytes more, and for the NUL behind them. */
static char *need(struct writer *w, size_t n)
{
	if (w->room - w->size <= n) {
		w->room = (w->room + n) * 2;
		w->text = realloc(w->text, w->room);
		if (!w->text)
			abort();
	}
	return w->text + w->size;
}

static void put(struct writer *w, const char *data, size_t n)
{
	memcpy(need(w, n), data, n);
	w->size += n;
}

static void put_char(struct writer *w, char c)
{
	*need(w, 1) = c;
	w->size++;
}

static bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

static void put_escape(struct writer *w, char c)
{
	static const char from[] = "\"\\\b\f\n\r\t";
	static const char to[] = "\"\\bfnrt";
	static const char hex[] = "0123456789ABCDEF";
	const char *at = c ? strchr(from, c) : NULL;

	if (at) {
		put(w, (const char[]){ '\\', to[at - from] }, 2);
		return;
	}
	put(w, "\\u00", 4);
	put(w, (const char[]){ hex[(c >> 4) & 15], hex[c & 15] }, 2);
}

static void write_text(struct writer *w, const char *text, size_t size)
{
	put_char(w, '"');
	for (size_t at = 0; at < size;) {
		size_t plain = at;

		while (plain < size && is_plain(text[plain]))
			plain++;
		put(w, text + at, plain - at);
		if (plain < size)
			put_escape(w, text[plain++]);
		at = plain;
	}
	put_char(w, '"');
}

static void write_integer(struct writer *w, json_int_t value)
{
	char digits[NUMBER_MAX];
	size_t at = sizeof(digits);
	unsigned long long left =
		value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;

	do {
		digits[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (value < 0)
		digits[--at] = '-';
	put(w, digits + at, sizeof(digits) - at);
}

/* They are few, and their form is jansson's own. */
static void write_real(struct writer *w, const json_t *value)
{
	char *to = need(w, NUMBER_MAX);
	size_t n =
		json_dumpb(value, to, NUMBER_MAX, JSON_ENCODE_ANY | JSON_REAL_PRECISION(w->digits));

	if (n == 0 || n > NUMBER_MAX)
		abort();
	w->size += n;
}

static void write_array(struct writer *w, const json_t *array)
{
	size_t n = json_array_size(array);

	put_char(w, '[');
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			put_char(w, ',');
		write_value(w, json_array_get(array, i));
	}
	put_char(w, ']');
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct member *)a)->key, ((const struct member *)b)->key);
}

static void write_member(struct writer *w, const struct member *m, bool is_first)
{
	if (!is_first)
		put_char(w, ',');
	write_text(w, m->key, strlen(m->key));
	put_char(w, ':');
	write_value(w, m->value);
}

static void write_sorted(struct writer *w, json_t *object)
{
	size_t n = json_object_size(object);
	AUTO_FREE struct member *members = xcalloc(n + 1, sizeof(*members));
	struct member *m = members;

	for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i))
		*m++ = (struct member){ json_object_iter_key(i), json_object_iter_value(i) };
	qsort(members, n, sizeof(*members), compare_keys);
	for (size_t i = 0; i < n; i++)
		write_member(w, &members[i], i == 0);
}

static void write_object(struct writer *w, json_t *object)
{
	bool is_first = true;

	put_char(w, '{');
	if (w->flags & JSON_WRITE_SORTED) {
		write_sorted(w, object);
	} else {
		for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
			struct member m = { json_object_iter_key(i), json_object_iter_value(i) };

			write_member(w, &m, is_first);
			is_first = false;
		}
	}
	put_char(w, '}');
}

static void write_value(struct writer *w, const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		write_object(w, (json_t *)value);
		break; /* to iterate takes no const */
	case JSON_ARRAY:
		write_array(w, value);
		break;
	case JSON_STRING:
		write_text(w, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
		write_integer(w, json_integer_value(value));
		break;
	case JSON_REAL:
		write_real(w, value);
		break;
	case JSON_TRUE:
		put(w, "true", 4);
		break;
	case JSON_FALSE:
		put(w, "false", 5);
		break;
	case JSON_NULL:
		put(w, "null", 4);
		break;
	}
}

char *json_write(const json_t *json, unsigned flags, unsigned digits, size_t *ret_size)
{
	struct writer w = { .room = FIRST_ROOM, .flags = flags, .digits = digits };

	w.text = malloc(w.room);
	if (!json || !w.text)
		abort();
	write_value(&w, json);
	w.text[w.size] = '\0';
	if (ret_size)
		*ret_size = w.size;
	return w.text;
}
