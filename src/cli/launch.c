/* belljar keeper: executes the keeper's program (cli/keeper.c), which this one carries. */
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "box/program.h"
#include "cli/command.h"

#define ARGS_MAX 64

/* Put here by tools/carry. */
extern const uint8_t keeper_program[];
extern const uint8_t keeper_program_end[];

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
	(void)program_execute(
		keeper_program, (size_t)(keeper_program_end - keeper_program), all, &err);
	complain("%s: %s", self->name, err.text);
	return EXIT_OURS;
}

const struct command command_keeper = {
	.name = "keeper",
	.summary = KEEPER_SUMMARY,
	.run = run,
};
