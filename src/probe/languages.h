/* The languages of the table (lang/lang.h): which of them boxes of the host image can run. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "probe/probe.h"

struct lang;

/* Looks at the disk, and runs nothing. */
probe_fn languages_probe;

/* Is this one here? Asked once for each language, in the order of the table. */
typedef bool languages_has_fn(const struct lang *l);

/* Fill `ret` with what is here and what is not, and how to get that. */
void languages_report(languages_has_fn *has, struct finding *ret);
