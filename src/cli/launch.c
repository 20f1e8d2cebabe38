/* belljar keeper: executes the keeper's program (cli/keeper.c), which this one carries. */
#include <stddef.h>

#include "base/err.h"
#include "box/program.h"
#include "cli/command.h"

#define ARGS_MAX 64

/* Put here by tools/embed. */
extern const char keeper_program[];
extern const size_t keeper_program_size;

static int run(const struct command *self, int argc, char **argv)
{
	char *all[ARGS_MAX + 2] = { (char[]){ "belljar" } };
	struct err err = { 0 };

	if (argc > ARGS_MAX) {
		complain("%s: more than %d arguments", self->name, ARGS_MAX);
		return EXIT_OURS;
	}
	for (int i = 0; i < argc; i++)
		all[i + 1] = argv[i];
	(void)program_execute(keeper_program, keeper_program_size, all, &err);
	complain("%s: %s", self->name, err.text);
	return EXIT_OURS;
}

const struct command command_keeper = {
	.name = "keeper",
	.summary = KEEPER_SUMMARY,
	.run = run,
};
