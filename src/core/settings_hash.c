/* policy_hash: one row of the table, one key. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/str.h"
#include "core/settings.h"
#include "core/settings_table.h"

#define PREFIX "tldw.sandbox.policy:v1\n"

/* Thousandths written as a number have at most 10 digits: so many are exact, and few enough
 * that 0.1 does not become 0.10000000000000001. */
#define REAL_DIGITS 15

static json_t *value_of_list(char *const *items)
{
	json_t *list = json_array();

	for (size_t i = 0; items[i]; i++)
		(void)json_array_append_new(list, json_string(items[i]));
	return list;
}

static json_t *value_of_text(const char *text)
{
	return text ? json_string(text) : json_null();
}

/* Only the kinds that policy rows have. */
static json_t *value_of(const struct settings *c, const struct setting_row *row)
{
	const void *at = setting_get(c, row);

	switch (row->kind) {
	case SETTING_BOOL:
		return json_boolean(*(const bool *)at);
	case SETTING_NUMBER:
	case SETTING_BYTES:
	case SETTING_MB:
		return json_integer((json_int_t) * (const uint64_t *)at);
	case SETTING_MILLI:
		return json_real((double)*(const uint64_t *)at / 1000);
	case SETTING_LIST:
		return value_of_list(*(char *const *const *)at);
	case SETTING_WORD:
	case SETTING_TEXT:
		return value_of_text(*(char *const *)at);
	case SETTING_PATH: /* the profile: its contents matter, not where it lies */
		return json_string(c->seccomp_digest);
	case SETTING_CHOICE:
	case SETTING_SECRET:
		break;
	}
	abort();
}

static bool is_hashed(const struct settings *c, const struct setting_row *row)
{
	if (!row->policy_unless_standard)
		return row->policy;
	const char *const *items = *(const char *const *const *)setting_get(c, row); /* a list */
	return !items[0] || items[1] || !streq(items[0], row->standard);
}

void settings_policy_hash(const struct settings *c, char ret[65])
{
	AUTO_JSON *object = json_object();

	for (size_t i = 0; i < n_setting_rows; i++) {
		const struct setting_row *row = &setting_rows[i];

		if (is_hashed(c, row) &&
			json_object_set_new(object, row->name, value_of(c, row)) < 0)
			abort();
	}
	AUTO_FREE char *text = json_dumps(
		object, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(REAL_DIGITS));
	if (!text)
		abort();
	CLEANUP(digest_freep) struct digest *d = digest_new();
	digest_add(d, PREFIX, strlen(PREFIX));
	digest_add(d, text, strlen(text));
	digest_end(d, ret);
}
