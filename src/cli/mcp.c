/* belljar mcp: MCP over stdin and stdout, for clients that start their servers themselves. The
 * tools are those of the run service: this program only carries messages to the server of its
 * state directory (src/bridge), which it starts if there is none. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/path.h"
#include "base/str.h"
#include "bridge/bridge.h"
#include "cli/attend.h"
#include "cli/command.h"
#include "cli/option.h"

#define START_WAIT_MS 20000

struct mcp_values {
	const char *root;
	const char *log_level;
};

static const struct option_row options[] = {
	{ "--root", 0, OPTION_STRING, offsetof(struct mcp_values, root), "DIR",
		"state directory (default: $BELLJAR_ROOT or the usual place)" },
	{ "--log-level", 0, OPTION_STRING, offsetof(struct mcp_values, log_level), "LEVEL",
		"debug, info, warn (default) or error; the log is on stderr" },
	{ 0 },
};

/* "https://127.0.0.1:8080" as the two things that a request can say of it. */
static void take_url(const char *url, struct bridge_place *ret)
{
	const char *plain = str_after(url, "http://");
	const char *tls = str_after(url, "https://");
	const char *host = plain ? plain : tls ? tls : "localhost";

	/* An address to listen on that is none to go to. */
	const char *any = str_after(host, "0.0.0.0:");
	const char *any6 = str_after(host, "[::]:");
	const char *port = any ? any : any6;
	ret->is_tls = tls != NULL;
	(void)snprintf(
		ret->host, sizeof(ret->host), "%s%s", port ? "127.0.0.1:" : "", port ? port : host);
}

static int connect_server(void *ctx, bool may_start, struct bridge_place *place, struct err *err)
{
	AUTO_FREE char *url = NULL;
	int fd = attend_connect(ctx, may_start, &url, err);

	if (fd >= 0)
		take_url(url, place);
	return fd;
}

/* Readable when we are told to end. */
static int open_signals(struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_errno(err, "watch for signals") : fd;
}

static int carry(const struct mcp_values *v, struct err *err)
{
	AUTO_FREE char *root = NULL;
	AUTO_FD signals = open_signals(err);
	const char *wanted = v->root ? v->root : getenv("SANDBOX_ROOT_DIR");
	int r = signals < 0 ? signals : path_state_root(wanted, &root, err);

	if (r < 0)
		return r;
	const char *key = getenv("SANDBOX_API_KEY");
	struct attend attend = {
		.root = root, .program = "/proc/self/exe", .wait_ms = START_WAIT_MS, .log_fd = -1
	};
	struct bridge_options bridge = {
		.in_fd = STDIN_FILENO,
		.out_fd = STDOUT_FILENO,
		.signal_fd = signals,
		.key = key && *key ? key : NULL,
		.connect = connect_server,
		.ctx = &attend,
	};
	r = bridge_run(&bridge, err);
	attend_fini(&attend);
	return r;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct mcp_values v = { 0 };
	struct err err = { 0 };
	int r = option_parse_only(self, argc, argv, &v, &err);

	if (r == 0)
		return 0;
	if (r > 0)
		r = option_set_log_level(v.log_level, &err);
	if (r == 0)
		r = carry(&v, &err);
	if (r >= 0)
		return 0;
	complain("mcp: %s", err.text);
	return EXIT_OURS;
}

const struct command command_mcp = {
	.name = "mcp",
	.summary = "Serve tools to a model over MCP on stdin and stdout",
	.description =
		"For clients that start their servers themselves: `claude mcp add belljar -- belljar mcp`.\n"
		"Uses the server that runs on the state directory, so that its sessions are seen by\n"
		"all; without one it starts one that ends by itself when nobody needs it. With several\n"
		"users, $SANDBOX_API_KEY says who is asking.",
	.options = options,
	.run = run,
};
