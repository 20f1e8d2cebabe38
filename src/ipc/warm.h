/* What is made ahead of the runs: said by a server, done by the keeper. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cur;
struct err;
struct put;

enum warmth {
	WARM_OFF,       /* nothing */
	WARM_BOXES,     /* boxes */
	WARM_LANGUAGES, /* and interpreters in them */
	WARM_COUNT,
};

/* Names of modules, separated by commas, all in all. */
#define WARM_IMPORTS_MAX 1024u

struct warm {
	enum warmth warmth;
	uint64_t memory_bytes; /* that all which wait may take */
	char imports[WARM_IMPORTS_MAX + 1];
};

/* Names of Python modules and commas; -EINVAL names what is wrong. */
int warm_check_imports(const char *text, struct err *err);

void warm_put(const struct warm *w, struct put *p);
void warm_get(struct warm *w, struct cur *c);

/* What waits, and what it was good for; counted since the keeper was started. */
struct warm_stock {
	uint64_t waiting;
	uint64_t making;
	uint64_t hits;
	uint64_t misses;
	uint64_t made;
	uint64_t made_us; /* the time that took */
};

struct warm_state {
	struct warm_stock boxes;    /* on the image "host" */
	struct warm_stock imported; /* boxes on other images */
	struct warm_stock clones;   /* of a Python, on the image "host" */
};

bool warm_state_is_same(const struct warm_state *a, const struct warm_state *b);

void warm_state_put(const struct warm_state *s, struct put *p);
void warm_state_get(struct warm_state *s, struct cur *c);
