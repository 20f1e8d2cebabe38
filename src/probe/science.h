/* The libraries that people expect of a Python for data: which of them the host's own lacks. */
#pragma once
#include <stddef.h>

#include "probe/probe.h"

/* Asks /usr/bin/python3, which is the one that boxes of the host image have. */
probe_fn science_probe;

/* For python3 -c: prints which of the modules that are its arguments are not there. */
extern const char science_script[];

/* "sudo apt install python3-x ..." for the modules named in `missing`, separated by blanks or
 * newlines; names that are none of ours are left out. False when none is left. */
bool science_format_fix(const char *missing, char *buf, size_t size);
