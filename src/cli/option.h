/* Command-line options from a table: parsing, help text, and a hint for a word
 * that is nearly right. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct command;
struct err;

enum option_kind {
	OPTION_FLAG,     /* sets a bool */
	OPTION_STRING,   /* const char *, borrowed from argv */
	OPTION_BYTES,    /* uint64_t, "256M" */
	OPTION_DURATION, /* uint64_t, milliseconds, "20s" */
	OPTION_MILLI,    /* uint64_t, thousandths, "1.5" */
	OPTION_NUMBER,   /* uint64_t */
	OPTION_LIST,     /* struct option_list, may be repeated */
};

/* Values of an option that may be given several times; borrowed from argv. */
struct option_list {
	const char **values;
	size_t n;
};

struct option_row {
	const char *name; /* "--memory"; NULL ends the table */
	char letter;      /* 'm', or 0 */
	enum option_kind kind;
	size_t offset;     /* where the value goes in the command's own struct */
	const char *value; /* what the help calls the value: "BYTES" */
	const char *help;
};

/* Parse options up to the first word that is not one, or "--". The values go
 * into `values`, the command's struct, at each row's offset. Returns the index of
 * the first argument that is left; 0 when --help was asked for and printed; or a
 * negative errno with a sentence in `err`. */
int option_parse(const struct command *cmd, int argc, char **argv, void *values, struct err *err);

/* The same for a command that takes nothing but options: a word that is left is refused. */
int option_parse_only(
	const struct command *cmd, int argc, char **argv, void *values, struct err *err);

/* Log from the level of this name on; NULL leaves it as it is. -EINVAL when there is none. */
int option_set_log_level(const char *name, struct err *err);

/* Print the help text of a subcommand to stdout. */
void option_print_help(const struct command *cmd);

void option_list_fini(struct option_list *list);
