/* From the keeper's result to the public one: the same facts, in the words of
 * belljar.h. */
#pragma once

struct belljar_result;
struct err;
struct result;
struct spec;

/* Translate all that the keeper knows of a run. -EIO for a result that is none, since
 * the sandbox itself failed. What only the client knows, log and captured files, is
 * left at zero. */
int outcome_publish(const struct result *r, const struct spec *spec, struct belljar_result *ret,
	struct err *err);
