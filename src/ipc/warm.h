/* What is made ahead of the runs: said by a server, done by the keeper. */
#pragma once
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
