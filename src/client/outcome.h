/* From the keeper's result to the public one: the same facts, in the words of
 * belljar.h. */
#pragma once
#include "belljar.h"
#include "ipc/result.h"

struct err;
struct spec;

/* The reason which an outcome stands for, with its name and phase. */
enum reason outcome_reason(enum belljar_outcome outcome);

/* Translate all that the keeper knows of a run. -EIO for a result that is none, since
 * the sandbox itself failed. What only the client knows, log and captured files, is
 * left at zero. */
int outcome_publish(const struct result *r, const struct spec *spec, struct belljar_result *ret,
	struct err *err);
