/* What differs between one run of Python and another, set in a clone: arguments, environment,
 * streams, random numbers. In C as far as possible, since each page that Python code touches
 * for the first time is one to be copied. */
#pragma once
#include <stdbool.h>

struct object;
struct spec;

/* In the template; `names` is the namespace of python_boot.py. */
void adopt_prepare(struct object *names);

/* Be what `spec` asks for, as the interpreter `program`; `file` is the name in tracebacks of the
 * program that is to be run, empty for one given by -c. False when that failed, and only a new
 * interpreter can tell why. */
bool adopt_spec(const struct spec *spec, const char *program, const char *file);
