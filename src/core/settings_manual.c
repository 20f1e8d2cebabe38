/* docs/config.md, from the rows. */
#include <string.h>

#include "base/cleanup.h"
#include "core/settings.h"
#include "core/settings_table.h"

static const char intro[] =
	"# Settings of the server\n"
	"\n"
	"A setting is taken from the command line of `belljar serve`, else from the environment,\n"
	"else from a config file, else it has its default. A variable that is empty counts as not\n"
	"set. A name that begins with `SANDBOX_` and is not in this manual is refused, as is a "
	"value\n"
	"out of range: the server then does not start.\n"
	"\n"
	"The config file is named by `--config` or by `SANDBOX_CONFIG`. It has one setting a line:\n"
	"\n"
	"    # what follows a hash at the start of a line is ignored\n"
	"    SANDBOX_PORT = 8443\n"
	"    SANDBOX_SUPPORTED_SPEC_VERSIONS = 1.0, 1.1\n"
	"\n"
	"Lists are separated by commas or written as JSON. Sizes in MB count 1048576 bytes and may\n"
	"have a unit (`2G`). Secrets can not be given on the command line, where everyone sees "
	"them,\n"
	"nor in a file that everyone may read.\n"
	"\n"
	"A dot in the column *hash* means that the setting is a part of `policy_hash`.\n";

static void write_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			(void)fputc('\\', out);
		(void)fputc(*text, out);
	}
}

static void write_row(FILE *out, const struct setting_row *row)
{
	char form[128];

	setting_describe(row, form, sizeof(form));
	(void)fprintf(out, "| `%s` | %s | ", row->name, form);
	if (row->standard)
		(void)fprintf(out, "`%s`", row->standard);
	else
		(void)fputs(row->note ? row->note : "none", out);
	(void)fprintf(out, " | %s | ", row->policy ? "•" : "");
	write_escaped(out, row->help);
	(void)fputs(" |\n", out);
}

static void write_group(FILE *out, enum setting_group group)
{
	(void)fprintf(out,
		"\n## %s\n\n| setting | value | default | hash | meaning |\n|---|---|---|---|---|\n",
		setting_group_titles[group]);
	for (size_t i = 0; i < n_setting_rows; i++) {
		if (setting_rows[i].group == group)
			write_row(out, &setting_rows[i]);
	}
}

void settings_write_manual(FILE *out)
{
	(void)fputs(intro, out);
	for (int i = 0; i < GROUP_COUNT; i++)
		write_group(out, (enum setting_group)i);
}
