/* JSON that must have exactly the expected shape, with errors that say where it has
 * not: "syscalls[3].args[0].op is missing". Whatever passed a check here can be read
 * with jansson's functions without asking again. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Where in the document something stands: "syscalls[3].args[0].op". */
struct place {
	char text[96];
};

struct place place_field(const struct place *in, const char *name);
struct place place_item(const struct place *in, size_t index);

/* A field of an object. One that is not required may also be null, which jansson's
 * functions read as empty, 0 or NULL. A table of them ends with an empty row. */
struct field {
	const char *name;
	json_type type;
	bool required;
};

/* Check that `value` is an object with these fields and no others. 0 or -EINVAL. */
int schema_check(
	json_t *value, const struct field *fields, const struct place *at, struct err *err);

/* Check that an array holds only strings; absent or null is empty. 0 or -EINVAL. */
int schema_check_strings(json_t *array, const struct place *at, struct err *err);

/* True when a checked array of strings holds `text`. */
bool schema_has_string(json_t *array, const char *text);

/* A word of the document and what it means. A table of them ends with an empty row. */
struct word {
	const char *name;
	uint32_t value;
};

/* Look up `text`, which stands at `at`. 0 or -EINVAL. */
int schema_parse_word(const char *text, const struct word *words, const struct place *at,
	uint32_t *ret, struct err *err);

/* The integer field `name` of a checked object at `at`, 0 if it has none. 0, or
 * -EINVAL when it is negative or above `max`. */
int schema_get_u64(json_t *object, const char *name, uint64_t max, const struct place *at,
	uint64_t *ret, struct err *err);
