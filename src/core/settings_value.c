/* One value of one row: from text, to text for people, and back to nothing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/settings_table.h"

#define MB (UINT64_C(1) << 20)

typedef int set_fn(void *at, const struct setting_row *row, const char *text, struct err *err);

static int set_bool(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "true", true },
		{ "1", true },
		{ "yes", true },
		{ "on", true },
		{ "false", false },
		{ "0", false },
		{ "no", false },
		{ "off", false },
	};

	(void)row;
	(void)err;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(text, words[i].word) == 0) {
			*(bool *)at = words[i].value;
			return 0;
		}
	}
	return -EINVAL;
}

static int keep_number(void *at, const struct setting_row *row, uint64_t value)
{
	if (value < row->min || value > row->max)
		return -ERANGE;
	*(uint64_t *)at = value;
	return 0;
}

static int set_number(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	uint64_t value = 0;
	int r = str_parse_u64(text, row->max, &value);

	(void)err;
	return r < 0 ? r : keep_number(at, row, value);
}

static int set_bytes(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	uint64_t value = 0;
	int r = str_parse_bytes(text, &value);

	(void)err;
	return r < 0 ? r : keep_number(at, row, value);
}

/* A bare number is MiB already; one with a unit must be whole ones. */
static int set_mb(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	uint64_t value = 0;

	if (text[strspn(text, "0123456789")] == '\0')
		return set_number(at, row, text, err);
	int r = str_parse_bytes(text, &value);
	if (r < 0)
		return r;
	return value % MB ? -EINVAL : keep_number(at, row, value / MB);
}

/* No more than three digits behind the point: what we would round away was meant. */
static int set_milli(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	uint64_t value = 0;
	const char *point = strchr(text, '.');
	int r = point && strlen(point) > 4 ? -EINVAL : str_parse_milli(text, &value);

	(void)err;
	return r < 0 ? r : keep_number(at, row, value);
}

static int find_word(const struct setting_row *row, const char *text)
{
	for (int i = 0; row->words[i]; i++) {
		if (streq(row->words[i], text))
			return i;
	}
	return -EINVAL;
}

/* The field is a bool, an enum or a uint64_t. */
static int set_choice(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	int i = find_word(row, text);

	(void)err;
	if (i < 0)
		return i;
	if (row->size == sizeof(bool))
		*(bool *)at = i != 0;
	else if (row->size == sizeof(unsigned))
		*(unsigned *)at = (unsigned)i;
	else
		*(uint64_t *)at = (uint64_t)i;
	return 0;
}

static bool has_control(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	}
	return false;
}

static int set_text(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	char **field = at;

	if (has_control(text))
		return err_set(err, -EINVAL, "control characters are not allowed");
	int r = *text && row->check ? row->check(text, err) : 0;
	if (r < 0)
		return r;
	*field = *text ? xstrdup(text) : NULL;
	return 0;
}

static int set_word(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	return find_word(row, text) < 0 ? -EINVAL : set_text(at, row, text, err);
}

static int set_path(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	if (*text && *text != '/')
		return -EINVAL;
	return set_text(at, row, text, err);
}

static int add_item(
	char **items, size_t *n, const struct setting_row *row, const char *text, struct err *err)
{
	if (*n >= SETTING_ITEMS_MAX)
		return err_set(err, -EINVAL, "more than %u items", SETTING_ITEMS_MAX);
	if (!*text)
		return err_set(err, -EINVAL, "item %zu is empty", *n + 1);
	int r = set_text(&items[*n], row, text, err);
	if (r == 0)
		(*n)++;
	return r;
}

static int add_json_items(
	char **items, const struct setting_row *row, const char *text, struct err *err)
{
	AUTO_JSON *list = NULL;
	const json_t *item;
	size_t i;
	size_t n = 0;
	int r = json_read(text, strlen(text), &list, err);

	if (r < 0)
		return -EINVAL;
	if (!json_is_array(list))
		return -EINVAL;
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			return err_set(err, -EINVAL, "item %zu is not a string", i + 1);
		r = add_item(items, &n, row, json_string_value(item), err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_comma_items(
	char **items, const struct setting_row *row, const char *text, struct err *err)
{
	AUTO_FREE char *copy = xstrdup(text);
	char *rest = copy;
	size_t n = 0;
	int r = 0;

	for (char *word; r == 0 && (word = strsep(&rest, ","));) {
		word += strspn(word, " \t");
		for (size_t end = strlen(word); end > 0 && strchr(" \t", word[end - 1]);)
			word[--end] = '\0';
		r = add_item(items, &n, row, word, err);
	}
	return r;
}

static void free_items(char **items)
{
	for (size_t i = 0; items && items[i]; i++)
		free(items[i]);
	free(items);
}

static int set_list(void *at, const struct setting_row *row, const char *text, struct err *err)
{
	char **items = xcalloc(SETTING_ITEMS_MAX + 1, sizeof(*items));
	int r = 0;

	if (*text == '[')
		r = add_json_items(items, row, text, err);
	else if (*text)
		r = add_comma_items(items, row, text, err);
	if (r < 0)
		free_items(items);
	else
		*(char ***)at = items;
	return r;
}

static void fini_text(void *at)
{
	char **field = at;

	free(*field);
	*field = NULL;
}

static void fini_secret(void *at)
{
	char **field = at;

	if (*field)
		explicit_bzero(*field, strlen(*field));
	fini_text(at);
}

static void fini_list(void *at)
{
	char ***field = at;

	free_items(*field);
	*field = NULL;
}

static const struct {
	set_fn *set;
	void (*fini)(void *at);
	const char *form; /* what a good value is, for people */
} kinds[] = {
	[SETTING_BOOL] = { set_bool, NULL, "true or false" },
	[SETTING_NUMBER] = { set_number, NULL, "a whole number" },
	[SETTING_BYTES] = { set_bytes, NULL, "bytes, such as 65536 or 10M," },
	[SETTING_MB] = { set_mb, NULL, "whole megabytes, such as 64 or 2G," },
	[SETTING_MILLI] = { set_milli, NULL, "a number such as 1.5" },
	[SETTING_CHOICE] = { set_choice, NULL, "one of" },
	[SETTING_WORD] = { set_word, fini_text, "one of" },
	[SETTING_TEXT] = { set_text, fini_text, "text" },
	[SETTING_PATH] = { set_path, fini_text, "an absolute path" },
	[SETTING_SECRET] = { set_text, fini_secret, "a secret" },
	[SETTING_LIST] = { set_list, fini_list, "a list, a,b or [\"a\",\"b\"]" },
};

void setting_describe(const struct setting_row *row, char *buf, size_t size)
{
	const char *form = kinds[row->kind].form;
	bool milli = row->kind == SETTING_MILLI;

	(void)snprintf(buf, size, "%s", form);
	if (row->max && milli)
		(void)snprintf(buf, size, "%s from %g to %g", form, (double)row->min / 1000,
			(double)row->max / 1000);
	else if (row->max)
		(void)snprintf(
			buf, size, "%s from %" PRIu64 " to %" PRIu64, form, row->min, row->max);
	for (size_t i = 0; row->words && row->words[i]; i++) {
		size_t used = strlen(buf);
		(void)snprintf(buf + used, size - used, "%s %s", i ? "," : "", row->words[i]);
	}
}

int setting_set(
	struct settings *c, const struct setting_row *row, const char *text, struct err *err)
{
	struct err why = { 0 };
	char form[128];
	bool secret = row->kind == SETTING_SECRET;
	int r = kinds[row->kind].set(setting_at(c, row), row, text, &why);

	if (r >= 0)
		return 0;
	struct quoted quoted = quote(text);
	const char *given = secret ? "what was given" : quoted.text;
	if (why.text[0])
		return err_set(err, -EINVAL, "%s: %s", given, why.text);
	setting_describe(row, form, sizeof(form));
	return err_set(err, -EINVAL, "%s is not %s", given, form);
}

void setting_fini(struct settings *c, const struct setting_row *row)
{
	if (kinds[row->kind].fini)
		kinds[row->kind].fini(setting_at(c, row));
}
