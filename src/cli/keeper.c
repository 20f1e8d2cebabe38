/* The keeper's own program: the privileged process, usually started by something else. It is
 * apart from the others, and linked without their libraries, since every box begins as a
 * copy of it: what is not mapped need not be copied, and can not be misused. cli/launch.c
 * carries it inside of `belljar`. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "box/program.h"
#include "cli/command.h"
#include "cli/option.h"
#include "cli/respawn.h"
#include "keeper/keeper.h"

struct keeper_values {
	const char *root;
	const char *seccomp;
	const char *log_level;
	uint64_t uid;
	uint64_t listen_fd;
	uint64_t lifeline_fd;
	uint64_t trial_fd;
	uint64_t workspaces_ms;
	bool ends_when_idle;
	bool respawn;
};

/* What makes an interpreter a template: carried by this program. */
extern const char warm_library[];
extern const size_t warm_library_size;

#define NONE          UINT64_MAX
#define WORKSPACES_MS 3600000

static const struct option_row options[] = {
	{ "--root", 0, OPTION_STRING, offsetof(struct keeper_values, root), "DIR",
		"state directory (default: $BELLJAR_ROOT or the usual place)" },
	{ "--uid", 0, OPTION_NUMBER, offsetof(struct keeper_values, uid), "UID",
		"UID that may connect (default: yours); root can always use a keeper of root's" },
	{ "--listen-fd", 0, OPTION_NUMBER, offsetof(struct keeper_values, listen_fd), "N",
		"serve this inherited socket instead of <root>/keeper.sock" },
	{ "--lifeline-fd", 0, OPTION_NUMBER, offsetof(struct keeper_values, lifeline_fd), "N",
		"end when the other end of this inherited pipe is closed" },
	{ "--trial-fd", 0, OPTION_NUMBER, offsetof(struct keeper_values, trial_fd), "N",
		"say on this inherited socket why it can not start; end with it, until a byte comes" },
	{ "--keep-workspaces", 0, OPTION_DURATION, offsetof(struct keeper_values, workspaces_ms),
		"TIME",
		"with --idle-exit: for how long without clients (default 1h; 0: for ever)" },
	{ "--idle-exit", 0, OPTION_FLAG, offsetof(struct keeper_values, ends_when_idle), NULL,
		"end by itself when nobody needs it any more" },
	{ "--respawn", 0, OPTION_FLAG, offsetof(struct keeper_values, respawn), NULL,
		"when it is killed, start it again" },
	{ "--seccomp", 0, OPTION_STRING, offsetof(struct keeper_values, seccomp), "FILE",
		"another seccomp profile, in Docker's format" },
	{ "--log-level", 0, OPTION_STRING, offsetof(struct keeper_values, log_level), "LEVEL",
		"debug, info, warn (default) or error" },
	{ 0 },
};

static int run(const struct command *self, int argc, char **argv)
{
	struct keeper_values v = {
		.uid = NONE,
		.listen_fd = NONE,
		.lifeline_fd = NONE,
		.trial_fd = NONE,
		.workspaces_ms = WORKSPACES_MS,
	};
	struct err err = { 0 };
	int r = option_parse_only(self, argc, argv, &v, &err);

	if (r == 0)
		return 0;
	if (r > 0)
		r = option_set_log_level(v.log_level, &err);
	int trial_fd = v.trial_fd == NONE ? -1 : (int)v.trial_fd;
	if (r == 0) {
		struct keeper_options keeper = {
			.root = v.root,
			.profile = v.seccomp,
			.uid = v.uid == NONE ? geteuid() : (uid_t)v.uid,
			.listen_fd = v.listen_fd == NONE ? -1 : (int)v.listen_fd,
			.lifeline_fd = v.lifeline_fd == NONE ? -1 : (int)v.lifeline_fd,
			.ends_when_idle = v.ends_when_idle,
			.workspaces_ms = v.workspaces_ms,
			.warm_library = warm_library,
			.warm_library_size = warm_library_size,
		};
		if (v.respawn && respawn_wait(&trial_fd, EXIT_OURS) == 0)
			return 0; /* the guardian; its child goes on */
		keeper.trial_fd = trial_fd;
		r = program_seal(&err);
		if (r == 0)
			r = keeper_serve(&keeper, &err);
		/* Whoever serves it has a guardian of its own, and ours is not needed. */
		if (r == -EADDRINUSE && v.respawn)
			return 0;
	}
	if (r >= 0)
		return 0;
	if (trial_fd >= 0)
		(void)send(trial_fd, err.text, strlen(err.text), MSG_NOSIGNAL | MSG_DONTWAIT);
	else
		complain("keeper: %s", err.text);
	return EXIT_OURS;
}

static const struct command command = {
	.name = "keeper",
	.summary = KEEPER_SUMMARY,
	.description =
		"Listens on <root>/keeper.sock until it gets SIGTERM. Boxes end with their keeper;\n"
		"whatever a killed one left behind is swept away when the next one starts.",
	.options = options,
	.run = run,
};

/* Started as `belljar keeper OPTION...`, which is also how it is listed. */
int main(int argc, char **argv)
{
	front_hold_descriptors();
	if (argc < 2) {
		complain("the keeper is started as 'belljar keeper'");
		return EXIT_OURS;
	}
	return command.run(&command, argc - 1, argv + 1);
}
