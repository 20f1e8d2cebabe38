#include "base/json.h"

#include <errno.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/json_write.h"

/* Before anything is built from it: a parser that recurses is not given what is too deep, and
 * one that is at it for long, while others wait, not what has too many parts. */
static int check(const char *text, size_t size, struct err *err)
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
		if (depth > JSON_DEPTH_MAX)
			return err_set(err, -EBADMSG, "the JSON is nested deeper than %u levels",
				JSON_DEPTH_MAX);
		if (n_values > JSON_VALUES_MAX)
			return err_set(
				err, -EBADMSG, "the JSON has more than %u values", JSON_VALUES_MAX);
	}
	return 0;
}

int json_read(const char *text, size_t size, json_t **ret, struct err *err)
{
	json_error_t error;

	int r = check(text, size, err);
	if (r < 0)
		return r;
	json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (!json)
		return err_set(err, -EBADMSG, "line %d, column %d: %s", error.line, error.column,
			error.text);
	*ret = json;
	return 0;
}

char *json_canonical(const json_t *json)
{
	return json_write(json, JSON_WRITE_SORTED, 0, NULL);
}
