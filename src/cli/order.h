/* What one `belljar run` is asked for: the options, and the task that the library
 * makes of them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "belljar.h"
#include "cli/option.h"

struct command;
struct err;
struct lang;

struct order_values {
	const char *root;
	const char *image;
	const char *lang;
	const char *out;
	const char *require;
	const char *cwd;
	uint64_t timeout_ms;
	uint64_t grace_ms;
	uint64_t memory;
	uint64_t cpu_milli;
	uint64_t pids;
	uint64_t workspace;
	uint64_t capture_max;
	struct option_list env;
	struct option_list copy_in;
	struct option_list captures;
	bool json;
	bool quiet;
	bool no_tty;
	bool exec; /* which is the default: for scripts that say what they need */
	bool no_exec;
	bool no_grace;
};

struct order {
	struct order_values v;
	struct belljar_task_options task; /* borrows from all of the following */
	const struct lang *lang;
	char program[256]; /* that runs it, if its name is not enough */
	const char **argv;
	const char **env;
	const char **captures;
	struct belljar_file *files;
	size_t n_files;
	char *source;
	size_t source_size;
};

/* The table of options; ends with an empty row. */
extern const struct option_row order_options[];

/* Read the command line of `cmd` into a zeroed order. Returns 1, or 0 when only
 * help was asked for, or a negative errno with a sentence. To be given to
 * order_fini() in every case. */
int order_parse(
	const struct command *cmd, int argc, char **argv, struct order *ret, struct err *err);

void order_fini(struct order *r);
