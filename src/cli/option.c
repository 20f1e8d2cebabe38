#include "cli/option.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/command.h"

#define OPTIONS_MAX   64
#define LIST_MAX_SIZE 4096

static int set_flag(void *at, const char *text)
{
	(void)text;
	*(bool *)at = true;
	return 0;
}

static int set_string(void *at, const char *text)
{
	*(const char **)at = text;
	return 0;
}

static int set_bytes(void *at, const char *text)
{
	return str_parse_bytes(text, at);
}

static int set_duration(void *at, const char *text)
{
	return str_parse_duration(text, at);
}

static int set_milli(void *at, const char *text)
{
	return str_parse_milli(text, at);
}

static int set_number(void *at, const char *text)
{
	return str_parse_u64(text, INT64_MAX, at);
}

static int add_to_list(void *at, const char *text)
{
	struct option_list *list = at;

	if (list->n >= LIST_MAX_SIZE)
		return -E2BIG;
	const char **grown = reallocarray(list->values, list->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->values = grown;
	list->values[list->n++] = text;
	return 0;
}

static const struct {
	int (*set)(void *at, const char *text);
	const char *form; /* what a good value looks like */
} kinds[] = {
	[OPTION_FLAG] = { set_flag, "" },
	[OPTION_STRING] = { set_string, "" },
	[OPTION_BYTES] = { set_bytes, "a size such as 256M" },
	[OPTION_DURATION] = { set_duration, "a time such as 20s" },
	[OPTION_MILLI] = { set_milli, "a number such as 1.5" },
	[OPTION_NUMBER] = { set_number, "a whole number" },
	[OPTION_LIST] = { add_to_list, "" },
};

static const struct option_row *find_row(const struct option_row *rows, const char *word, size_t n)
{
	for (const struct option_row *r = rows; r && r->name; r++) {
		if (strlen(r->name) == n && strncmp(r->name, word, n) == 0)
			return r;
		if (n == 2 && word[0] == '-' && r->letter && word[1] == r->letter)
			return r;
	}
	return NULL;
}

static int refuse_unknown(const struct command *cmd, const char *word, size_t n, struct err *err)
{
	const char *names[OPTIONS_MAX];
	size_t n_names = 0;
	char given[64];

	(void)snprintf(given, sizeof(given), "%.*s", (int)n, word);
	names[n_names++] = "--help";
	for (const struct option_row *r = cmd->options; r && r->name && n_names < OPTIONS_MAX; r++)
		names[n_names++] = r->name;
	const char *near = str_nearest(given, names, n_names);
	if (near)
		return err_set(err, -EINVAL, "unknown option %s, did you mean %s?", given, near);
	return err_set(err, -EINVAL, "unknown option %s, see belljar %s --help", given, cmd->name);
}

/* One option at argv[i], its value joined by '=' or in the next word. Returns how
 * many words it took. */
static int parse_one(
	const struct command *cmd, int argc, char **argv, int i, void *values, struct err *err)
{
	const char *word = argv[i];
	const char *equals = strchr(word, '=');
	size_t n = equals ? (size_t)(equals - word) : strlen(word);
	const struct option_row *row = find_row(cmd->options, word, n);
	const char *value = equals ? equals + 1 : NULL;
	int taken = 1;

	if (!row)
		return refuse_unknown(cmd, word, n, err);
	if (row->kind == OPTION_FLAG && value)
		return err_set(err, -EINVAL, "option %s takes no value", row->name);
	if (row->kind != OPTION_FLAG && !value) {
		if (i + 1 >= argc)
			return err_set(err, -EINVAL, "option %s needs a value", row->name);
		value = argv[i + 1];
		taken = 2;
	}
	int r = kinds[row->kind].set((char *)values + row->offset, value);
	if (r == -ERANGE)
		return err_set(err, r, "option %s: '%s' is out of range", row->name, value);
	if (r == -E2BIG)
		return err_set(err, r, "option %s is given too often", row->name);
	if (r < 0)
		return err_set(err, r, "option %s: '%s' is not %s", row->name, value,
			kinds[row->kind].form);
	return taken;
}

int option_parse(const struct command *cmd, int argc, char **argv, void *values, struct err *err)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		if (streq(argv[i], "--"))
			return i + 1;
		if (streq(argv[i], "--help") || streq(argv[i], "-h")) {
			option_print_help(cmd);
			return 0;
		}
		int taken = parse_one(cmd, argc, argv, i, values, err);
		if (taken < 0)
			return taken;
		i += taken;
	}
	return i;
}

int option_parse_only(
	const struct command *cmd, int argc, char **argv, void *values, struct err *err)
{
	int r = option_parse(cmd, argc, argv, values, err);

	if (r > 0 && r < argc)
		return err_set(err, -EINVAL, "unexpected argument '%s'", argv[r]);
	return r;
}

int option_set_log_level(const char *name, struct err *err)
{
	enum log_level level;

	if (!name)
		return 0;
	if (log_parse_level(name, &level) < 0)
		return err_set(err, -EINVAL, "unknown log level '%s'", name);
	log_set_level(level);
	return 0;
}

void option_print_help(const struct command *cmd)
{
	printf("Usage: belljar %s%s%s%s\n\n%s\n", cmd->name, cmd->options ? " [OPTION]..." : "",
		cmd->arguments ? " " : "", cmd->arguments ? cmd->arguments : "", cmd->summary);
	if (cmd->description)
		printf("\n%s\n", cmd->description);
	printf("\nOptions:\n");
	for (const struct option_row *r = cmd->options; r && r->name; r++) {
		char left[64];
		char letter[8] = "    ";

		if (r->letter)
			(void)snprintf(letter, sizeof(letter), "-%c, ", r->letter);
		(void)snprintf(left, sizeof(left), "%s%s%s%s", letter, r->name, r->value ? " " : "",
			r->value ? r->value : "");
		printf("  %-32s %s\n", left, r->help);
	}
	printf("  %-32s %s\n", "-h, --help", "show this text");
}

void option_list_fini(struct option_list *list)
{
	free(list->values);
	*list = (struct option_list){ 0 };
}
