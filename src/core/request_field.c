#include "core/request_field.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "core/problem.h"

const char *field_member(const struct field *f)
{
	const char *dot = strrchr(f->name, '.');

	return dot ? dot + 1 : f->name;
}

json_t *field_get(const json_t *object, const struct field *f)
{
	json_t *value = json_object_get(object, field_member(f));

	return json_is_null(value) ? NULL : value;
}

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++) {
		if (streq(word, *words))
			return true;
	}
	return false;
}

static size_t count(const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	return n;
}

static int check_word(const struct field *f, const json_t *value, struct problem *problem)
{
	const char *word = json_string_value(value);
	char list[128] = "";

	if (word && is_one_of(word, f->words))
		return 0;
	for (size_t i = 0; i < count(f->words); i++) {
		size_t n = strlen(list);

		(void)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", f->words[i]);
	}
	return problem_field(problem, f->name, "must be one of %s", list);
}

static int check_text(const struct field *f, const json_t *value, struct problem *problem)
{
	if (!json_is_string(value))
		return problem_field(problem, f->name, "must be a text");
	if (json_string_length(value) < f->min || json_string_length(value) > f->max)
		return problem_field(problem, f->name, "must have %llu to %llu bytes",
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

static int check_number(const struct field *f, const json_t *value, struct problem *problem)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value))
		return problem_field(problem, f->name, "must be an integer");
	if (n < 0 || (uint64_t)n < f->min || (uint64_t)n > f->max)
		return problem_field(problem, f->name, "must be between %llu and %llu",
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

static int check_milli(const struct field *f, const json_t *value, struct problem *problem)
{
	double v = json_number_value(value);

	if (!json_is_number(value))
		return problem_field(problem, f->name, "must be a number");
	if (!isfinite(v) || v < (double)f->min || v > (double)f->max)
		return problem_field(problem, f->name, "must be between %llu and %llu",
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

static int check_bool(const struct field *f, const json_t *value, struct problem *problem)
{
	return json_is_boolean(value) ? 0
				      : problem_field(problem, f->name, "must be true or false");
}

static int check_texts(const struct field *f, const json_t *value, struct problem *problem)
{
	size_t i;
	json_t *item;

	if (!json_is_array(value))
		return problem_field(problem, f->name, "must be a list of texts");
	if (json_array_size(value) < f->min || json_array_size(value) > f->max)
		return problem_field(problem, f->name, "must have %llu to %llu items",
			(unsigned long long)f->min, (unsigned long long)f->max);
	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item))
			return problem_field(problem, f->name, "item %zu is not a text", i);
	}
	return 0;
}

static int check_map(const struct field *f, const json_t *value, struct problem *problem)
{
	const char *key;
	json_t *item;

	if (!json_is_object(value))
		return problem_field(problem, f->name, "must be an object of texts");
	if (json_object_size(value) > f->max)
		return problem_field(problem, f->name, "must have at most %llu members",
			(unsigned long long)f->max);
	json_object_foreach((json_t *)value, key, item)
	{
		if (!json_is_string(item))
			return problem_field(
				problem, f->name, "the value of '%.64s' is not a text", key);
	}
	return 0;
}

static int check_nothing(const struct field *f, const json_t *value, struct problem *problem)
{
	(void)f;
	(void)value;
	(void)problem;
	return 0;
}

static int (*const checks[])(
	const struct field *f, const json_t *value, struct problem *problem) = {
	[FIELD_TEXT] = check_text,
	[FIELD_WORD] = check_word,
	[FIELD_NUMBER] = check_number,
	[FIELD_MILLI] = check_milli,
	[FIELD_BOOL] = check_bool,
	[FIELD_TEXTS] = check_texts,
	[FIELD_MAP] = check_map,
	[FIELD_OTHER] = check_nothing,
};

int field_check(const struct field *f, const json_t *value, struct problem *problem)
{
	if (checks[f->type](f, value, problem) < 0)
		return -1;
	return f->check ? f->check(value, problem) : 0;
}

int field_check_members(const json_t *object, const struct field *f, struct problem *problem)
{
	for (; f->name; f++) {
		const json_t *value = field_get(object, f);

		if (value && field_check(f, value, problem) < 0)
			return -1;
	}
	return 0;
}

/* However little is asked for, it is not nothing: 0 would stand for all there is. */
static uint64_t to_milli(const json_t *value)
{
	double v = json_number_value(value);
	long long milli = llround(v * 1000);

	return milli > 0 ? (uint64_t)milli : v > 0;
}

json_t *field_clean(const struct field *f, json_t *value)
{
	if (f->type == FIELD_NUMBER && json_integer_value(value) == 0)
		return NULL;
	if (f->type == FIELD_MILLI)
		return to_milli(value) ? json_real((double)to_milli(value) / 1000) : NULL;
	return f->clean ? f->clean(value) : json_incref(value);
}

json_t *field_clean_members(const json_t *object, const struct field *f)
{
	json_t *clean = json_object();

	for (; f->name; f++) {
		json_t *value = field_get(object, f);
		json_t *kept = value ? field_clean(f, value) : NULL;

		if (kept)
			(void)json_object_set_new(clean, field_member(f), kept);
	}
	return clean;
}

void field_store(const struct field *f, json_t *value, void *ret)
{
	if (f->offset == SIZE_MAX)
		return;
	void *at = (char *)ret + f->offset;
	switch (f->type) {
	case FIELD_TEXT:
	case FIELD_WORD:
		*(const char **)at = json_string_value(value);
		break;
	case FIELD_NUMBER:
		*(uint64_t *)at = (uint64_t)json_integer_value(value);
		break;
	case FIELD_MILLI:
		*(uint64_t *)at = to_milli(value);
		break;
	case FIELD_BOOL:
		*(bool *)at = json_is_true(value);
		break;
	case FIELD_TEXTS:
	case FIELD_MAP:
	case FIELD_OTHER:
		*(const json_t **)at = value;
		break;
	}
}
