/* Every way in which a task can end; those that this host and user can not bring
 * about are printed. */
#include <unistd.h>

#include "check.h"

static char large[8 << 20];

static const struct belljar_file large_file = {
	.name = "large", .bytes = large, .size = sizeof(large)
};

#define HAS(facet) (UINT64_C(1) << BELLJAR_FACET_##facet)

static const struct row {
	enum belljar_outcome outcome;
	const char *name;
	const char *argv[6];
	uint64_t needs; /* facets without which it can not happen */
	int exit_code;
	int signal;
	struct belljar_limits limits;
	const struct belljar_file *file;
	const char *image;
} rows[] = {
	{ BELLJAR_SUCCESS, "success", { "true" }, 0, 0, 0, { 0 }, NULL, NULL },
	{ BELLJAR_NONZERO_EXIT, "nonzero_exit", { "sh", "-c", "exit 3" }, 0, 3, 0, { 0 }, NULL,
		NULL },
	{ BELLJAR_SIGNALED, "signaled", { "sh", "-c", "kill -SEGV $$" }, 0, -1, 11, { 0 }, NULL,
		NULL },
	{ BELLJAR_OUT_OF_MEMORY, "out_of_memory", { "python3", "-c", "x = bytearray(1 << 28)" },
		HAS(MEMORY), -1, -1, { .memory_bytes = 32 << 20 }, NULL, NULL },
	{ BELLJAR_PIDS_LIMIT, "pids_limit",
		{ "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done" },
		HAS(MEMORY) | HAS(PIDS), 2, 0, { .pids = 5 }, NULL, NULL },
	{ BELLJAR_TIMEOUT, "timeout", { "sleep", "60" }, 0, -1, 9, { .timeout_ms = 100 }, NULL,
		NULL },
	{ BELLJAR_STARTUP_TIMEOUT, "startup_timeout", { "true" }, 0, -1, 0, { .startup_ms = 1 },
		&large_file, NULL },
	{ BELLJAR_IMAGE_MISSING, "image_missing", { "true" }, 0, -1, 0, { 0 }, NULL,
		"no-such-image" },
	{ BELLJAR_PROVISION_FAILED, "provision_failed", { "true" }, 0, -1, 0,
		{ .workspace_bytes = 1 << 20 }, &large_file, NULL },
	{ BELLJAR_EXEC_FAILED, "exec_failed", { "no-such-program" }, 0, -1, 0, { 0 }, NULL, NULL },
};

static void try(struct belljar_sandbox *sandbox, const struct row *row)
{
	struct belljar_task_options options = {
		.argv = row->argv,
		.image = row->image,
		.files = row->file,
		.n_files = row->file != NULL,
		.limits = row->limits,
	};

	if (row->needs & ~belljar_enforced(sandbox)) {
		printf("not here: %s\n", row->name);
		return;
	}
	struct belljar_result r = run(sandbox, &options, NULL);
	if (r.outcome != row->outcome)
		fprintf(stderr, "%s: %s: %s\n", row->name, belljar_outcome_name(r.outcome),
			r.message);
	CHECK(r.outcome == row->outcome);
	CHECK(strcmp(belljar_outcome_name(r.outcome), row->name) == 0);
	CHECK(r.exit_code == row->exit_code);
	CHECK(row->signal < 0 || r.signal == row->signal);
	CHECK(r.message[0] && !strchr(r.message, '\n'));
	CHECK((r.error != 0) ==
		(row->outcome == BELLJAR_EXEC_FAILED || row->outcome == BELLJAR_PROVISION_FAILED));
}

static void deny(struct belljar_sandbox *sandbox)
{
	uint64_t all = (UINT64_C(1) << BELLJAR_FACET_COUNT) - 1;
	struct belljar_task_options options = { .argv = ARGV("true"), .require = all };

	if (belljar_enforced(sandbox) == all) {
		CHECK(run(sandbox, &options, NULL).outcome == BELLJAR_SUCCESS);
		printf("not here: policy_denied\n");
		return;
	}
	struct belljar_result r = run(sandbox, &options, NULL);
	CHECK(r.outcome == BELLJAR_POLICY_DENIED && r.started_ns == 0);
	CHECK(strcmp(belljar_outcome_name(r.outcome), "policy_denied") == 0);
}

int main(void)
{
	struct belljar_sandbox *sandbox = open_sandbox();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		try(sandbox, &rows[i]);
	deny(sandbox);
	CHECK(belljar_outcome_name((enum belljar_outcome)99) == NULL);
	CHECK(belljar_facet_name(BELLJAR_FACET_COUNT) == NULL);
	for (int f = 0; f < BELLJAR_FACET_COUNT; f++)
		CHECK(belljar_facet_name((enum belljar_facet)f)[0] != '\0');
	belljar_close(sandbox);
	return 0;
}
