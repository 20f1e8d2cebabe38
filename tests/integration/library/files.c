/* Files into the workspace and out of it. argv[1] is a directory of ours. */
#include <sys/stat.h>

#include "check.h"

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void check_text(const char *path, const char *text)
{
	char got[256] = "";
	FILE *f = fopen(path, "r");

	CHECK(f != NULL);
	(void)fread(got, 1, sizeof(got) - 1, f);
	(void)fclose(f);
	CHECK(strcmp(got, text) == 0);
}

int main(int argc, char **argv)
{
	struct belljar_sandbox *sandbox = open_sandbox();
	struct belljar_error error = { 0 };
	struct belljar_task *task = NULL;
	struct belljar_result result;
	struct stat st;
	char path[4][512];

	CHECK(argc == 2);
	(void)snprintf(path[0], sizeof(path[0]), "%s/tree", argv[1]);
	(void)snprintf(path[1], sizeof(path[1]), "%s/tree/leaf", argv[1]);
	(void)snprintf(path[2], sizeof(path[2]), "%s/out", argv[1]);
	CHECK(mkdir(path[0], 0755) == 0);
	write_text(path[1], "leaf\n");

	struct belljar_file files[] = {
		{ .name = "data/bytes", .bytes = "some bytes", .size = 4 },
		{ .name = "script", .bytes = "", .size = 0, .mode = 0755 },
		{ .name = "copy", .host_path = path[0] },
		{ .name = "one", .host_path = path[1] },
	};
	struct belljar_task_options options = {
		.argv = SHELL("cat data/bytes copy/leaf one; stat -c %a script;"
			      "mkdir out; echo result >out/r.txt; echo no >out/r.log;"
			      "head -c 2000 /dev/zero >out/large.txt"),
		.files = files,
		.n_files = 4,
		.captures = ARGV("out/*.txt"),
		.capture_dir = path[2],
		.limits = { .capture_bytes = 1000 },
	};
	COLLECTOR(c);
	result = run(sandbox, &options, &c);
	CHECK(result.outcome == BELLJAR_SUCCESS);
	CHECK(strcmp(c.out, "someleaf\nleaf\n755\n") == 0);
	CHECK(result.captured_files == 1 && result.skipped_files == 1);
	CHECK(result.captured_bytes == 7 && !result.capture_incomplete);
	(void)snprintf(path[3], sizeof(path[3]), "%s/out/out/r.txt", argv[1]);
	check_text(path[3], "result\n");
	(void)snprintf(path[3], sizeof(path[3]), "%s/out/out/r.log", argv[1]);
	CHECK(stat(path[3], &st) < 0);

	/* What is wrong with a file is said when the task is made, or when the file is
	 * read: nothing is half-run then. */
	const struct {
		struct belljar_file file;
		int code;
		const char *words;
	} bad[] = {
		{ { .name = "../x", .bytes = "" }, -EINVAL, "'../x'" },
		{ { .name = "/x", .bytes = "" }, -EINVAL, "'/x'" },
		{ { .name = "x" }, -EINVAL, "no source" },
		{ { .bytes = "x" }, -EINVAL, "no name" },
		{ { .name = "x", .host_path = "/nonexistent/file" }, -ENOENT, "/nonexistent/file" },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		COLLECTOR(d);
		struct belljar_task_options with = {
			.argv = SHELL("echo ran"),
			.files = &bad[i].file,
			.n_files = 1,
		};

		memset(&error, 0, sizeof(error));
		task = NULL;
		int r = belljar_task_new(sandbox, &with, &task, &error);
		if (r == 0)
			r = belljar_task_execute(task, &d.listener, &result, &error);
		CHECK(r == bad[i].code && error.code == r && d.n_out == 0);
		CHECK(strstr(error.text, bad[i].words) != NULL);
		belljar_task_free(task);
	}
	belljar_close(sandbox);
	return 0;
}
