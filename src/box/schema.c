#include "box/schema.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"

struct place place_field(const struct place *in, const char *name)
{
	struct place p;
	const char *dot = in->text[0] ? "." : "";

	(void)snprintf(p.text, sizeof(p.text), "%.50s%s%.40s", in->text, dot, name);
	return p;
}

struct place place_item(const struct place *in, size_t index)
{
	struct place p;

	(void)snprintf(p.text, sizeof(p.text), "%.60s[%zu]", in->text, index);
	return p;
}

static const char *type_name(json_type type)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "an integer",
	};

	return names[type];
}

static const struct field *find_field(const struct field *fields, const char *name)
{
	for (; fields->name; fields++) {
		if (streq(fields->name, name))
			return fields;
	}
	return NULL;
}

static int check_required(
	json_t *object, const struct field *fields, const struct place *at, struct err *err)
{
	for (; fields->name; fields++) {
		struct place p = place_field(at, fields->name);

		if (fields->required && !json_object_get(object, fields->name))
			return err_set(err, -EINVAL, "%s is missing", p.text);
	}
	return 0;
}

int schema_check(json_t *value, const struct field *fields, const struct place *at, struct err *err)
{
	const char *name;
	json_t *member;

	if (!json_is_object(value))
		return err_set(err, -EINVAL, "%s is not an object", at->text[0] ? at->text : "it");
	json_object_foreach(value, name, member)
	{
		const struct field *f = find_field(fields, name);
		struct place p = place_field(at, name);

		if (!f)
			return err_set(err, -EINVAL, "%s is not a known field", p.text);
		if (json_typeof(member) != f->type && (f->required || !json_is_null(member)))
			return err_set(err, -EINVAL, "%s is not %s", p.text, type_name(f->type));
	}
	return check_required(value, fields, at, err);
}

int schema_check_strings(json_t *array, const struct place *at, struct err *err)
{
	size_t i;
	json_t *value;

	json_array_foreach(array, i, value)
	{
		if (!json_is_string(value))
			return err_set(err, -EINVAL, "%s[%zu] is not a string", at->text, i);
	}
	return 0;
}

bool schema_has_string(json_t *array, const char *text)
{
	size_t i;
	json_t *value;

	json_array_foreach(array, i, value)
	{
		if (streq(json_string_value(value), text))
			return true;
	}
	return false;
}

int schema_parse_word(const char *text, const struct word *words, const struct place *at,
	uint32_t *ret, struct err *err)
{
	for (; words->name; words++) {
		if (!streq(words->name, text))
			continue;
		*ret = words->value;
		return 0;
	}
	return err_set(err, -EINVAL, "%s: '%.64s' is not one we know", at->text, text);
}

int schema_get_u64(json_t *object, const char *name, uint64_t max, const struct place *at,
	uint64_t *ret, struct err *err)
{
	struct place p = place_field(at, name);
	json_int_t v = json_integer_value(json_object_get(object, name));

	if (v < 0 || (uint64_t)v > max)
		return err_set(err, -EINVAL, "%s is not between 0 and %ju", p.text, (uintmax_t)max);
	*ret = (uint64_t)v;
	return 0;
}
