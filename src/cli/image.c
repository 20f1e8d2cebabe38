/* `belljar image`: what boxes can be made of. The verbs are commands of their own,
 * with their own options and help. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/option.h"
#include "image/budget.h"
#include "image/document.h"
#include "image/import.h"

struct values {
	const char *root;
	const char *name;
	const char *ref;
	uint64_t max_size;
	bool json;
};

#define ROOT_ROW                                                                                   \
	{                                                                                          \
		"--root", 0, OPTION_STRING, offsetof(struct values, root), "DIR",                  \
			"the state directory, else $BELLJAR_ROOT"                                  \
	}

/* Options may stand before and after the argument. Returns 1 with it (NULL when
 * there is none), 0 when help was printed, or a negative errno. */
static int parse(const struct command *verb, int argc, char **argv, struct values *v,
	const char **ret_argument, struct err *err)
{
	const char *argument = NULL;
	bool only_arguments = false;

	for (int at = 0; at < argc - 1;) {
		int n = only_arguments ? 1 : option_parse(verb, argc - at, argv + at, v, err);
		if (n <= 0)
			return n;
		only_arguments = only_arguments || (n > 1 && streq(argv[at + n - 1], "--"));
		at += n;
		if (at >= argc)
			break;
		if (argument || !verb->arguments)
			return err_set(err, -EINVAL,
				"'%.64s' is one argument too many, see belljar %s --help", argv[at],
				verb->name);
		argument = argv[at];
	}
	if (verb->arguments && !argument)
		return err_set(err, -EINVAL, "%s is missing, see belljar %s --help",
			verb->arguments, verb->name);
	*ret_argument = argument;
	return 1;
}

static void print_json(const json_t *json)
{
	/* ASCII only: a name or variable of an image must not steer the terminal. */
	(void)json_dumpf(json, stdout, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	(void)putchar('\n');
}

/* "12.3 MiB" */
static void format_bytes(uint64_t bytes, char *buf, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t unit = 0;
	uint64_t tenths = bytes * 10;

	while (tenths >= 10240 && unit + 1 < ARRAY_SIZE(units)) {
		tenths /= 1024;
		unit++;
	}
	(void)snprintf(
		buf, size, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, units[unit]);
}

static const char *text_of(const json_t *record, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : otherwise;
}

static void print_row(const json_t *record, const char *name)
{
	const char *digest = text_of(record, "digest", "");
	const char *hex = str_after(digest, "sha256:");
	const json_t *bytes = json_object_get(record, "size");
	char size[32] = "-";

	if (bytes)
		format_bytes((uint64_t)json_integer_value(bytes), size, sizeof(size));
	printf("%-32s %-12.12s %-8s %10s  %s\n", name, hex ? hex : digest,
		text_of(record, "architecture", "-"), size,
		text_of(record, "problem",
			text_of(record, "imported_at", text_of(record, "description", ""))));
}

static void print_table(const json_t *list)
{
	size_t i;
	size_t j;
	const json_t *record;
	const json_t *name;

	printf("%-32s %-12s %-8s %10s  %s\n", "NAME", "DIGEST", "ARCH", "SIZE", "IMPORTED");
	json_array_foreach(list, i, record)
	{
		const json_t *names = json_object_get(record, "names");

		if (json_array_size(names) == 0)
			print_row(record, "-");
		json_array_foreach(names, j, name)
		{
			print_row(record, json_string_value(name));
		}
	}
}

static int do_list(const struct values *v, const char *root, const char *argument, struct err *err)
{
	AUTO_JSON *list = NULL;

	(void)argument;
	int r = image_list(root, &list, err);
	if (r < 0)
		return r;
	if (v->json)
		print_json(list);
	else
		print_table(list);
	return 0;
}

static int do_inspect(
	const struct values *v, const char *root, const char *argument, struct err *err)
{
	AUTO_JSON *record = NULL;

	(void)v;
	int r = image_find(root, argument, &record, err);
	if (r == 0)
		print_json(record);
	return r;
}

static int do_remove(
	const struct values *v, const char *root, const char *argument, struct err *err)
{
	(void)v;
	int r = import_remove(root, argument, err);
	if (r < 0)
		return r;
	printf(r > 0 ? "removed %s\n" : "removed the name %s, the image has others\n", argument);
	return 0;
}

static int do_import(
	const struct values *v, const char *root, const char *argument, struct err *err)
{
	const struct import_options options = {
		.root = root,
		.source = argument,
		.name = v->name,
		.ref = v->ref,
		.bytes_max = v->max_size,
	};
	AUTO_JSON *record = NULL;
	size_t i;
	const json_t *name;

	int r = import_image(&options, &record, err);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(record, "names"), i, name)
	{
		printf("%s %s\n", json_string_value(name), text_of(record, "digest", ""));
	}
	return 0;
}

static const struct option_row import_options[] = {
	{ "--name", 'n', OPTION_STRING, offsetof(struct values, name), "NAME",
		"call it so, instead of the names it brings" },
	{ "--ref", 0, OPTION_STRING, offsetof(struct values, ref), "NAME",
		"which one, when the source holds several images" },
	{ "--max-size", 0, OPTION_BYTES, offsetof(struct values, max_size), "BYTES",
		"refuse an image that unpacks to more (8G)" },
	ROOT_ROW,
	{ 0 },
};

static const struct option_row list_options[] = {
	{ "--json", 0, OPTION_FLAG, offsetof(struct values, json), NULL, "print JSON" },
	ROOT_ROW,
	{ 0 },
};

static const struct option_row root_option[] = {
	ROOT_ROW,
	{ 0 },
};

static const struct verb {
	struct command command;
	int (*act)(const struct values *v, const char *root, const char *argument, struct err *err);
} verbs[] = {
	{ { .name = "image import",
		  .arguments = "SOURCE",
		  .summary = "Bring in an image.",
		  .description =
			  "SOURCE is an OCI layout (a directory or a tar archive of one), what\n"
			  "`docker save` wrote, or - for such an archive on standard input.",
		  .options = import_options },
		do_import },
	{ { .name = "image list",
		  .summary = "List the images, among them 'host', this machine's own /usr.",
		  .options = list_options },
		do_list },
	{ { .name = "image inspect",
		  .arguments = "NAME",
		  .summary = "Print all that is known about an image, as JSON.",
		  .options = root_option },
		do_inspect },
	{ { .name = "image remove",
		  .arguments = "NAME",
		  .summary = "Remove a name, and with its last name the image.",
		  .options = root_option },
		do_remove },
};

/* `v` has what stood before the verb. */
static int run_verb(const struct verb *verb, struct values *v, int argc, char **argv)
{
	struct err err = { 0 };
	const char *argument = NULL;
	AUTO_FREE char *root = NULL;

	int r = parse(&verb->command, argc, argv, v, &argument, &err);
	if (r == 0)
		return EXIT_SUCCESS;
	if (r > 0)
		r = path_state_root(v->root, &root, &err);
	if (r == 0)
		r = verb->act(v, root, argument, &err);
	if (r == 0 && fflush(stdout) == EOF)
		r = err_errno(&err, "write");
	if (r < 0)
		complain("%s", err.text);
	return r < 0 ? EXIT_OURS : EXIT_SUCCESS;
}

static const char *verb_name(size_t i)
{
	return str_after(verbs[i].command.name, "image ");
}

static int refuse_verb(const char *word)
{
	const char *names[ARRAY_SIZE(verbs)];

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		names[i] = verb_name(i);
	const char *near = str_nearest(word, names, ARRAY_SIZE(names));
	if (near)
		complain("unknown verb '%.64s', did you mean '%s'?", word, near);
	else
		complain("unknown verb '%.64s', see belljar image --help", word);
	return EXIT_OURS;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct values v = { .max_size = BUDGET_BYTES_DEFAULT };
	struct err err = { 0 };

	int at = option_parse(self, argc, argv, &v, &err);
	if (at == 0)
		return EXIT_SUCCESS;
	if (at < 0 || at >= argc) {
		complain("%s",
			at < 0 ? err.text : "image needs a verb: import, list, inspect or remove");
		return EXIT_OURS;
	}
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (streq(argv[at], verb_name(i)))
			return run_verb(&verbs[i], &v, argc - at, argv + at);
	}
	return refuse_verb(argv[at]);
}

const struct command command_image = {
	.name = "image",
	.arguments = "import|list|inspect|remove ...",
	.summary = "import, list, inspect or remove images",
	.description =
		"  belljar image import SOURCE [--name NAME]   bring in an OCI or docker image\n"
		"  belljar image list [--json]                 list them\n"
		"  belljar image inspect NAME                  print one as JSON\n"
		"  belljar image remove NAME                   remove one\n\n"
		"An image becomes the read-only root of a box. 'host' is always there: it is\n"
		"this machine's own /usr.",
	.options = root_option,
	.run = run,
};
