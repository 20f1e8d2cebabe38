/* The rows behind settings.h, for settings*.c only: what each setting is called, where its
 * value goes, what it may be, and the sentence that the manual has about it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct settings;

enum setting_kind {
	SETTING_BOOL,   /* bool */
	SETTING_NUMBER, /* uint64_t from min to max */
	SETTING_BYTES,  /* the same, "10M" is understood too */
	SETTING_MB,     /* the same in MiB: "64", "1G" */
	SETTING_MILLI,  /* uint64_t, "1.5" is kept as 1500; so are min and max */
	SETTING_CHOICE, /* which of `words`, as bool, enum or uint64_t */
	SETTING_WORD,   /* char *, one of `words` */
	SETTING_TEXT,   /* char *, NULL when empty */
	SETTING_PATH,   /* char *, absolute, NULL when empty */
	SETTING_SECRET, /* char *, NULL when empty; never repeated, never on a command line */
	SETTING_LIST,   /* char **, ends with NULL: "a,b" or ["a","b"] */
};

enum setting_group {
	GROUP_LISTEN,
	GROUP_AUTH,
	GROUP_POLICY,
	GROUP_QUEUE,
	GROUP_STREAM,
	GROUP_FATHOM,
	GROUP_MCP,
	GROUP_WARM,
	GROUP_STORE,
	GROUP_COUNT,
};

/* More than this in one list is a mistake. */
#define SETTING_ITEMS_MAX 256u

struct setting_row {
	enum setting_group group;
	const char *name;
	enum setting_kind kind;
	size_t offset; /* in struct settings */
	size_t size;
	const char *standard; /* the default as text; NULL: not set */
	uint64_t min;
	uint64_t max;
	const char *const *words;    /* ends with NULL */
	bool policy;                 /* a part of policy_hash */
	bool policy_unless_standard; /* ... but where it is the default: it came later */
	/* Text and items of lists: 0, or a negative errno with what is wrong about it. */
	int (*check)(const char *text, struct err *err);
	const char *note; /* what the manual says instead of a default */
	const char *help;
};

extern const struct setting_row setting_rows[];
extern const size_t n_setting_rows;
extern const char *const setting_group_titles[GROUP_COUNT];

static inline void *setting_at(struct settings *c, const struct setting_row *row)
{
	return (char *)c + row->offset;
}

static inline const void *setting_get(const struct settings *c, const struct setting_row *row)
{
	return (const char *)c + row->offset;
}

/* Give a row its value from `text`. -EINVAL with a clause that says what it is and what it
 * should be, without the setting's name; of a secret, only what it should be. */
int setting_set(
	struct settings *c, const struct setting_row *row, const char *text, struct err *err);
void setting_fini(struct settings *c, const struct setting_row *row);

/* "a whole number from 0 to 65535" */
void setting_describe(const struct setting_row *row, char *buf, size_t size);

/* Checks of single values, see `check` above. */
int setting_check_key(const char *text, struct err *err);
int setting_check_jwt_secret(const char *text, struct err *err);
int setting_check_url(const char *text, struct err *err);
int setting_check_version(const char *text, struct err *err);
int setting_check_facet(const char *text, struct err *err);
int setting_check_scheme(const char *text, struct err *err);
int setting_check_name(const char *text, struct err *err);
int setting_check_imports(const char *text, struct err *err);

/* What rows alone can not say: settings that need or exclude one another, and those that
 * are made from others. */
int setting_check_all(struct settings *c, struct err *err);
