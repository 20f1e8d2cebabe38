/* `belljar doctor`: what this host can enforce, as a table or as JSON. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/newroot.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/option.h"
#include "client/connection.h"
#include "ipc/frame.h"
#include "ipc/spec.h"
#include "probe/probe.h"

#define ANSWER_SEC 5 /* of a keeper */

/* Layout of the table. */
#define WIDTH         100
#define COLUMN_NAME   11
#define COLUMN_DETAIL 38

struct doctor {
	const char *root;
	bool json;
	bool gaps;
};

static const struct option_row options[] = {
	{ "--root", 0, OPTION_STRING, offsetof(struct doctor, root), "DIR",
		"state directory (default: $BELLJAR_ROOT or the usual place)" },
	{ "--json", 0, OPTION_FLAG, offsetof(struct doctor, json), NULL, "print JSON" },
	{ "--gaps", 0, OPTION_FLAG, offsetof(struct doctor, gaps), NULL, "only what is not ok" },
	{ 0 },
};

/* How a state is coloured on a terminal. */
static const char *const colours[] = {
	[PROBE_OK] = "\033[32m",
	[PROBE_PARTIAL] = "\033[33m",
	[PROBE_MISSING] = "\033[31m",
	[PROBE_UNKNOWN] = "\033[35m",
};

/* https://no-color.org: any value but the empty one switches colours off. */
static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && !(term && streq(term, "dumb"));
}

/* Print `text`, starting in column `at`, and go on in column `indent` when a line
 * is full or the text has a newline. A word longer than a line is cut into lines. */
static void print_wrapped(const char *text, int at, int indent)
{
	while (*text) {
		int n = (int)strcspn(text, " \n");
		int room = WIDTH - indent;

		if (at > indent && at + 1 + n > WIDTH) {
			printf("\n%*s", indent, "");
			at = indent;
		} else if (at > indent) {
			(void)putchar(' ');
			at++;
		}
		for (; n > room; n -= room, text += room)
			printf("%.*s\n%*s", room, text, indent, "");
		printf("%.*s", n, text);
		at += n;
		text += n;
		if (*text == '\n') {
			printf("\n%*s", indent, "");
			at = indent;
		}
		text += *text != '\0';
	}
	(void)putchar('\n');
}

/* "limit: a run can use ..." under the row, its further lines indented. */
static void print_advice(const char *label, const char *text)
{
	int indent = COLUMN_NAME + (int)sizeof("required: ") - 1;

	printf("%*s%-*s", COLUMN_NAME, "", indent - COLUMN_NAME - 1, label);
	(void)putchar(' ');
	print_wrapped(text, indent, indent);
}

static void print_row(const struct probe *p, const struct finding *f, bool colour)
{
	char label[16];
	int name_width = COLUMN_DETAIL - COLUMN_NAME - 1;

	printf("  %s%-7s%s  %-*s ", colour ? colours[f->state] : "", probe_state_name(f->state),
		colour ? "\033[0m" : "", name_width, p->name);
	print_wrapped(f->detail, COLUMN_DETAIL, COLUMN_DETAIL);
	if (f->state == PROBE_OK)
		return;
	(void)snprintf(label, sizeof(label), "%s:", probe_severity_name(p->severity));
	print_advice(label, p->means);
	print_advice("fix:", f->fix ? f->fix : p->fix);
}

static void print_verdict(const struct checkup *c)
{
	char facets[256];
	char text[512];

	facet_format(c->not_enforced, facets, sizeof(facets));
	if (!c->can_run)
		(void)snprintf(text, sizeof(text),
			"Boxes can not be made here: see what is marked required above.");
	else if (facets[0])
		(void)snprintf(
			text, sizeof(text), "Boxes can be made here. Not enforced: %s.", facets);
	else
		(void)snprintf(
			text, sizeof(text), "Boxes can be made here, and every limit holds.");
	print_wrapped(text, 0, 0);
}

static void print_table(const struct checkup *c, bool only_gaps)
{
	const char *group = "";
	bool colour = wants_colour();

	printf("belljar %s on Linux %s, as %s\n", BELLJAR_VERSION, c->kernel, c->user);
	for (size_t i = 0; i < c->n; i++) {
		if (only_gaps && c->findings[i].state == PROBE_OK)
			continue;
		if (!streq(group, probes[i].group)) {
			group = probes[i].group;
			printf("\n%s\n", group);
		}
		print_row(&probes[i], &c->findings[i], colour);
	}
	(void)putchar('\n');
	print_verdict(c);
}

/* Advice belongs to a gap: null for what is there. */
static json_t *advice(const struct finding *f, const char *text)
{
	return f->state == PROBE_OK ? json_null() : json_string(text);
}

static json_t *row_to_json(const struct probe *p, const struct finding *f)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", p->name, "group", p->group,
		"state", probe_state_name(f->state), "severity", probe_severity_name(p->severity),
		"detail", f->detail, "means", advice(f, p->means), "fix",
		advice(f, f->fix ? f->fix : p->fix));
}

static json_t *checkup_to_json(const struct checkup *c, bool only_gaps)
{
	json_t *rows = json_array();
	json_t *facets = json_array();

	for (size_t i = 0; i < c->n; i++) {
		if (!only_gaps || c->findings[i].state != PROBE_OK)
			(void)json_array_append_new(rows, row_to_json(&probes[i], &c->findings[i]));
	}
	for (int i = 0; i < FACET_COUNT; i++) {
		if (c->not_enforced & FACET_BIT(i))
			(void)json_array_append_new(facets, json_string(facet_name((enum facet)i)));
	}
	return json_pack("{s:s, s:s, s:s, s:i, s:b, s:o, s:o}", "version", BELLJAR_VERSION,
		"kernel", c->kernel, "user", c->user, "uid", (int)c->uid, "can_run", c->can_run,
		"probes", rows, "not_enforced", facets);
}

static int print_json(const struct checkup *c, bool only_gaps)
{
	json_t *root = checkup_to_json(c, only_gaps);
	int r = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;

	json_decref(root);
	if (r < 0) {
		complain("can not write JSON");
		return -1;
	}
	(void)putchar('\n');
	return 0;
}

/* A keeper that answers says itself what it enforces, and runs are its work. */
static bool ask_keeper(const char *root, uint64_t *ret_facets)
{
	const struct timeval patience = { .tv_sec = ANSWER_SEC };
	AUTO_FREE uint8_t *buffer = xcalloc(1, FRAME_SIZE_MAX);
	AUTO_FD fd = -1;

	if (connection_open_running(root, &fd, NULL) < 0)
		return false;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return connection_greet(fd, buffer, ret_facets, NULL) == 0;
}

/* What this user can not do by himself, a keeper of root's may do for him. */
static void look_at_keeper(const char *given_root, struct checkup *c)
{
	AUTO_FREE char *root = NULL;
	uint64_t facets = 0;

	if (path_state_root(given_root, &root, NULL) < 0 || !ask_keeper(root, &facets))
		return;
	for (size_t i = 0; i < c->n; i++) {
		const struct probe *p = &probes[i];
		struct finding *f = &c->findings[i];

		if (p->severity != PROBE_LIMIT || !p->facets || f->state == PROBE_OK ||
			(p->facets & ~facets))
			continue;
		f->state = PROBE_OK;
		(void)snprintf(
			f->detail, sizeof(f->detail), "enforced by the keeper of %.60s", root);
	}
	c->not_enforced = FACET_ALL & ~facets;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct doctor opts = { 0 };
	struct err err = { 0 };

	int r = option_parse_only(self, argc, argv, &opts, &err);
	if (r == 0)
		return EXIT_SUCCESS;
	if (r < 0) {
		complain("%s", err.text);
		return EXIT_OURS;
	}
	/* As the keeper would. */
	(void)newroot_if_chrooted(NULL);
	AUTO_FREE struct checkup *c = xnew(struct checkup);
	probe_all(c);
	look_at_keeper(opts.root, c);
	if (!opts.json)
		print_table(c, opts.gaps);
	else if (print_json(c, opts.gaps) < 0)
		return EXIT_OURS;
	if (fflush(stdout) != 0) {
		complain("can not write to standard output");
		return EXIT_OURS;
	}
	return c->can_run ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "Tell what this host can enforce, and how to close the gaps.",
	.description =
		"Each thing is tried for real, as the current user, without changing the host. Where a\n"
		"keeper serves the state directory, runs are its work: limits that it enforces count.\n"
		"Exits with 0 when boxes can be made here and 1 when something required is\n"
		"missing.",
	.options = options,
	.run = run,
};
