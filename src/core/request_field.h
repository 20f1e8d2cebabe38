/* Fields of a request: what each must be, and the one form in which it is kept. The tables are
 * those of request.c. Pure. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct problem;

enum field_type {
	FIELD_TEXT,
	FIELD_WORD,   /* one of a list */
	FIELD_NUMBER, /* integer from min to max */
	FIELD_MILLI,  /* real number, kept in thousandths */
	FIELD_BOOL,
	FIELD_TEXTS, /* array of at most max texts */
	FIELD_MAP,   /* object of at most max texts */
	FIELD_OTHER, /* looked at by its own check */
};

struct field {
	const char *name; /* "resources.cpu" is the member "cpu" of "resources" */
	enum field_type type;
	unsigned kinds; /* of requests it belongs to */
	size_t offset;
	uint64_t min;
	uint64_t max;
	const char *const *words;
	const char *standard; /* JSON; NULL: none */
	/* Beside what the type says; may be NULL. */
	int (*check)(const json_t *value, struct problem *problem);
	json_t *(*clean)(const json_t *value); /* only what is known of it; a new value */
};

/* The words after the last dot. */
const char *field_member(const struct field *f);

/* Of an object, the member that a field is; NULL also for a null. */
json_t *field_get(const json_t *object, const struct field *f);

/* 0, or -1 with a problem that names the field. */
int field_check(const struct field *f, const json_t *value, struct problem *problem);

/* The form in which a value that was checked is kept, equal for what means the same; a new
 * value, or NULL for a number that says as much as none. */
json_t *field_clean(const struct field *f, json_t *value);

/* The same for the members of an object, with a table ended by a field without a name. */
int field_check_members(const json_t *object, const struct field *f, struct problem *problem);
json_t *field_clean_members(const json_t *object, const struct field *f);

/* Put a value that was checked to where its field is in the structure at `ret`. */
void field_store(const struct field *f, json_t *value, void *ret);
