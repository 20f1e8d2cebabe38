/* A subcommand of the program: one const struct per file, listed in main.c. */
#pragma once
#include <stddef.h>

#include "cli/front.h"

struct option_row;

struct command {
	const char *name;
	const char *arguments;            /* what stands behind the options in the usage line */
	const char *summary;              /* one line for `belljar --help` */
	const char *description;          /* paragraphs for `belljar NAME --help`; may be NULL */
	const struct option_row *options; /* ends with an empty row; may be NULL */

	/* Does the work; the return value is the exit status. `argv[0]` is the
	 * subcommand's name. */
	int (*run)(const struct command *self, int argc, char **argv);
};

/* Exit statuses that are ours and not a guest's, as `timeout` and `docker run`
 * use them too. */
enum exit_status {
	EXIT_TIMEOUT = 124,
	EXIT_OURS = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_OOM = 137,
};

/* Listed by one program, and explained by the other. */
#define KEEPER_SUMMARY "Make and guard boxes for other processes (started on demand by run)"

extern const struct command command_doctor;
extern const struct command command_image;
extern const struct command command_keeper;
extern const struct command command_mcp;
extern const struct command command_run;
extern const struct command command_serve;
extern const struct command command_stop;
extern const struct command command_user;

/* Every subcommand, in the order in which help lists them; ends with NULL. */
extern const struct command *const commands[];
