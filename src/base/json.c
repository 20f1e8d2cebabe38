#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/str.h"

/* Before anything is built from it: a parser that recurses is not given what is too deep, and
 * one that is at it for long, while others wait, not what has too many parts. `ret_end` is
 * behind what is too much. */
static int check(const char *text, size_t size, size_t *ret_end, struct err *err)
{
	size_t depth = 0;
	size_t n_values = 1;
	bool in_string = false;

	for (size_t i = 0; i < size; i++) {
		char c = text[i];

		if (in_string) {
			i += c == '\\';
			in_string = c != '"';
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			depth++;
			n_values++;
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
		} else if (c == ',') {
			n_values++;
		}
		*ret_end = i + 1;
		if (depth > JSON_DEPTH_MAX)
			return err_set(err, -EBADMSG, "the JSON is nested deeper than %u levels",
				JSON_DEPTH_MAX);
		if (n_values > JSON_VALUES_MAX)
			return err_set(
				err, -EBADMSG, "the JSON has more than %u values", JSON_VALUES_MAX);
	}
	return 0;
}

/* jansson's own sentences about these speak of its options, or are true of no JSON at all. */
static const struct {
	enum json_error_code code;
	const char *sentence;
} faults[] = {
	{ json_error_numeric_overflow, "the number is too large for 64 bits" },
	{ json_error_null_character, "a NUL character (\\u0000) is not allowed in a text" },
	{ json_error_null_byte_in_key, "a NUL character (\\u0000) is not allowed in a key" },
	{ json_error_duplicate_key, "a duplicate key: it stands twice in one object" },
	{ json_error_invalid_utf8, "the text is not valid UTF-8" },
};

/* What other languages write for numbers that JSON does not have. */
static const char *const no_numbers[] = { "NaN", "nan", "Infinity", "inf" };

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The one of them that stands at `at`, or NULL. The parser stops behind a word, but after a
 * sign before it. */
static const char *find_no_number(const char *text, size_t size, size_t at)
{
	size_t begin = at;
	size_t end = at;

	while (begin > 0 && is_letter(text[begin - 1]))
		begin--;
	while (end < size && is_letter(text[end]))
		end++;
	for (size_t i = 0; i < ARRAY_SIZE(no_numbers); i++) {
		if (strlen(no_numbers[i]) == end - begin &&
			memcmp(text + begin, no_numbers[i], end - begin) == 0)
			return no_numbers[i];
	}
	return NULL;
}

static int refuse(
	const char *text, size_t size, size_t end, const json_error_t *error, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		if (faults[i].code == json_error_code(error))
			return err_set(err, -EBADMSG, "line %d, column %d: %s", error->line,
				error->column, faults[i].sentence);
	}
	bool is_token = str_after(error->text, "invalid token") != NULL; /* and not in a string */
	const char *no_number = is_token ? find_no_number(text, size, end) : NULL;
	if (no_number)
		return err_set(err, -EBADMSG, "line %d, column %d: %s is no JSON number",
			error->line, error->column, no_number);
	return err_set(err, -EBADMSG, "line %d, column %d: this is no JSON: %s", error->line,
		error->column, error->text);
}

static int parse(const char *text, size_t size, unsigned takes, json_t **ret, size_t *ret_end,
	struct err *err)
{
	size_t flags = JSON_DECODE_ANY;
	json_error_t error;

	flags |= takes & JSON_TAKES_NUL ? JSON_ALLOW_NUL : 0;
	flags |= takes & JSON_TAKES_TWICE ? 0 : JSON_REJECT_DUPLICATES;
	json_t *json = json_loadb(text, size, flags, &error);
	if (json) {
		*ret = json;
		return 0;
	}
	*ret_end = (size_t)error.position < size ? (size_t)error.position : size;
	return refuse(text, size, *ret_end, &error, err);
}

int json_read_field(const char *text, size_t size, json_t **ret, char ret_field[JSON_FIELD_SIZE],
	struct err *err)
{
	size_t end = 0;
	int r = check(text, size, &end, err);

	if (r == 0)
		r = parse(text, size, 0, ret, &end, err);
	if (r < 0 && ret_field)
		json_field_at(text, end, ret_field);
	return r;
}

int json_read(const char *text, size_t size, json_t **ret, struct err *err)
{
	return json_read_field(text, size, ret, NULL, err);
}

int json_read_loosely(const char *text, size_t size, unsigned takes, json_t **ret, struct err *err)
{
	size_t end = 0;
	int r = check(text, size, &end, err);

	return r < 0 ? r : parse(text, size, takes, ret, &end, err);
}

char *json_canonical(const json_t *json)
{
	return json_write(json, JSON_WRITE_SORTED, 0, NULL);
}

void json_set_missing(json_t *object, const char *name, json_t *value)
{
	if (json_object_get(object, name) || !value || json_is_null(value))
		json_decref(value);
	else
		(void)json_object_set_new(object, name, value);
}
