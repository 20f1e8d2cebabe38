/* The program's front: finds the subcommand and runs it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/front.h"

const struct command *const commands[] = {
	&command_run,
	&command_serve,
	&command_stop,
	&command_mcp,
	&command_image,
	&command_doctor,
	&command_user,
	&command_keeper,
	NULL,
};

static void print_help(void)
{
	printf("Usage: belljar COMMAND [OPTION]... [ARGUMENT]...\n\n"
	       "Runs untrusted code where it can do no harm, and says truthfully how it ended.\n\n"
	       "Commands:\n");
	for (size_t i = 0; commands[i]; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	printf("\nTry:\n"
	       "  belljar run -- echo hello\n"
	       "  echo 'print(6 * 7)' | belljar run --lang python\n"
	       "  belljar doctor\n\n"
	       "`belljar COMMAND --help` explains one command; belljar(1) is the manual.\n");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++) {
		if (streq(commands[i]->name, name))
			return commands[i];
	}
	return NULL;
}

static int refuse_command(const char *name)
{
	const char *names[16];
	size_t n = 0;

	for (size_t i = 0; commands[i] && n < ARRAY_SIZE(names); i++)
		names[n++] = commands[i]->name;
	const char *near = str_nearest(name, names, n);
	if (near)
		complain("unknown command '%s', did you mean '%s'?", name, near);
	else
		complain("unknown command '%s', see belljar --help", name);
	return EXIT_OURS;
}

int main(int argc, char **argv)
{
	front_hold_descriptors();
	if (argc < 2) {
		print_help();
		return EXIT_OURS;
	}
	const char *word = argv[1];
	if (streq(word, "--help") || streq(word, "-h") || (streq(word, "help") && argc == 2)) {
		print_help();
		return EXIT_SUCCESS;
	}
	if (streq(word, "--version")) {
		printf("belljar " BELLJAR_VERSION "\n");
		return EXIT_SUCCESS;
	}
	bool asks_help = streq(word, "help");
	const struct command *cmd = find_command(asks_help ? argv[2] : word);
	if (!cmd)
		return refuse_command(asks_help ? argv[2] : word);
	if (asks_help) /* each prints its own, and keeper's is in another program */
		return cmd->run(cmd, 2, (char *[]){ argv[2], (char[]){ "--help" }, NULL });
	return cmd->run(cmd, argc - 1, argv + 1);
}
