#include "client/task.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* Tasks are made and checked without a keeper: only the images are looked at. */
struct bench {
	struct scratch dir;
	struct belljar_sandbox sandbox;
};

static void bench_init(struct bench *b)
{
	scratch_make(&b->dir);
	b->sandbox = (struct belljar_sandbox){ .root = b->dir.path };
}

static void bench_fini(struct bench *b)
{
	scratch_remove(&b->dir);
}

#define BENCH(name)                                                                                \
	CLEANUP(bench_fini) struct bench name;                                                     \
	bench_init(&name)

static void task_freep(struct belljar_task **task)
{
	belljar_task_free(*task);
}

#define AUTO_TASK CLEANUP(task_freep) struct belljar_task

static const char *const true_argv[] = { "true", NULL };

static const char *find_env(const struct belljar_task *t, const char *name)
{
	const char *found = NULL;

	for (size_t i = 0; t->spec.env[i]; i++) {
		const char *value = str_after(t->spec.env[i], name);

		if (!value || *value != '=')
			continue;
		CHECK(found == NULL); /* no variable is there twice */
		found = value + 1;
	}
	return found;
}

TEST(zero_means_the_default)
{
	BENCH(b);
	struct belljar_task_options o = { .argv = true_argv };
	AUTO_TASK *t = NULL;
	struct spec standard;

	spec_init(&standard);
	CHECK_EQ(belljar_task_new(&b.sandbox, &o, &t, NULL), 0);
	CHECK_EQ(strlen(belljar_task_id(t)), RUN_ID_SIZE);
	CHECK_STR(t->spec.image, "host");
	CHECK_STR(t->spec.cwd, "/workspace");
	CHECK_MEM(&t->spec.limits, &standard.limits, sizeof(standard.limits));
	CHECK_EQ(t->spec.rows, 24);
	CHECK_EQ(t->spec.columns, 80);
	CHECK(!t->spec.tty && !t->spec.takes_files && !t->spec.lingers);
	CHECK_STR(find_env(t, "HOME"), "/workspace");
	CHECK(find_env(t, "PATH") != NULL);
	CHECK(find_env(t, "TERM") == NULL);
}

TEST(what_is_given_is_taken)
{
	static const char *const env[] = { "HOME=/tmp", "X=1", "TERM=dumb", "HOMES=2", NULL };
	static const char *const captures[] = { "*.png", NULL };
	BENCH(b);
	struct belljar_task_options o = {
		.argv = true_argv,
		.env = env,
		.cwd = "/tmp",
		.captures = captures,
		.capture_dir = "/tmp/out",
		.limits = { .timeout_ms = 5, .pids = 7, .open_files = 99, .no_grace = true },
		.require = 1u << BELLJAR_FACET_MEMORY,
		.tty = true,
		.rows = 50,
		.columns = 132,
	};
	AUTO_TASK *t = NULL;

	CHECK_EQ(belljar_task_new(&b.sandbox, &o, &t, NULL), 0);
	CHECK_STR(find_env(t, "HOME"), "/tmp");
	CHECK_STR(find_env(t, "TERM"), "dumb");
	CHECK_STR(find_env(t, "HOMES"), "2");
	CHECK_EQ(t->spec.limits.timeout_ms, 5);
	CHECK_EQ(t->spec.limits.pids, 7);
	CHECK_EQ(t->spec.limits.files, 99);
	CHECK_EQ(t->spec.limits.grace_ms, 0);
	CHECK_EQ(t->spec.require, FACET_BIT(FACET_MEMORY));
	CHECK_STR(t->spec.globs[0], "*.png");
	CHECK(t->spec.tty && t->spec.rows == 50 && t->spec.columns == 132);
}

TEST(everything_is_copied)
{
	BENCH(b);
	char word[] = "true";
	char bytes[] = "abc";
	char input[] = "in";
	const char *argv[] = { word, NULL };
	struct belljar_file file = { .name = word, .bytes = bytes, .size = 3 };
	struct belljar_task_options o = {
		.argv = argv, .files = &file, .n_files = 1, .input = input, .input_size = 2
	};
	AUTO_TASK *t = NULL;

	CHECK_EQ(belljar_task_new(&b.sandbox, &o, &t, NULL), 0);
	memset(word, 'x', 4);
	memset(bytes, 'x', 3);
	memset(input, 'x', 2);
	CHECK_STR(t->spec.argv[0], "true");
	CHECK_STR(t->files[0].name, "true");
	CHECK_MEM(t->files[0].bytes, "abc", 3);
	CHECK_EQ(t->files[0].mode, 0644);
	CHECK_MEM(t->input, "in", 2);
	CHECK(t->spec.takes_files);
}

static const char *const no_words[] = { NULL };
static const char *const empty_word[] = { "", NULL };
static const char *const bad_env[] = { "PATH", NULL };
static const char *many[SPEC_STRINGS_MAX + 2];

static const struct {
	struct belljar_task_options options;
	const char *word; /* that the sentence must hold */
} bad[] = {
	{ { .argv = NULL }, "no command" },
	{ { .argv = no_words }, "no command" },
	{ { .argv = empty_word }, "no command" },
	{ { .argv = many }, "arguments" },
	{ { .argv = true_argv, .env = bad_env }, "NAME=VALUE" },
	{ { .argv = true_argv, .cwd = "relative" }, "'relative'" },
	{ { .argv = true_argv, .captures = true_argv }, "captures need a directory" },
	{ { .argv = true_argv, .captures = many, .capture_dir = "/tmp" }, "capture patterns" },
	{ { .argv = true_argv, .captures = empty_word, .capture_dir = "/tmp" }, "is empty" },
	{ { .argv = true_argv, .rows = 65536 }, "terminal" },
	{ { .argv = true_argv, .columns = 65536 }, "terminal" },
	{ { .argv = true_argv, .require = UINT64_C(1) << BELLJAR_FACET_COUNT }, "required" },
	{ { .argv = true_argv, .limits = { .memory_bytes = 1 } }, "memory_bytes" },
	{ { .argv = true_argv, .limits = { .pids = 1 } }, "pids" },
	{ { .argv = true_argv, .limits = { .timeout_ms = UINT64_MAX } }, "timeout_ms" },
	{ { .argv = true_argv, .files = &(struct belljar_file){ .bytes = "" }, .n_files = 1 },
		"no name" },
	{ { .argv = true_argv, .files = &(struct belljar_file){ .name = "x" }, .n_files = 1 },
		"no source" },
	{ { .argv = true_argv,
		  .files = &(struct belljar_file){ .name = "../x", .bytes = "" },
		  .n_files = 1 },
		"'../x'" },
	{ { .argv = true_argv,
		  .files = &(struct belljar_file){ .name = "/etc/x", .host_path = "/x" },
		  .n_files = 1 },
		"'/etc/x'" },
};

TEST(what_is_wrong_is_named_and_nothing_is_made)
{
	BENCH(b);

	for (size_t i = 0; i < ARRAY_SIZE(many) - 1; i++)
		many[i] = "x";
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct belljar_task *t = NULL;
		struct belljar_error error = { 0 };

		int r = belljar_task_new(&b.sandbox, &bad[i].options, &t, &error);
		if (r != -EINVAL)
			fail_msg("%d for '%s'", r, bad[i].word);
		CHECK_EQ(error.code, -EINVAL);
		if (!strstr(error.text, bad[i].word))
			fail_msg("'%s' does not tell of '%s'", error.text, bad[i].word);
		CHECK(t == NULL);
	}
}

TEST(a_missing_image_is_a_result)
{
	BENCH(b);
	struct belljar_task_options o = { .argv = true_argv, .image = "python:9.9" };
	struct belljar_result result;
	struct belljar_error error = { 0 };
	AUTO_TASK *t = NULL;

	CHECK_EQ(belljar_task_new(&b.sandbox, &o, &t, &error), 0);
	CHECK_EQ(belljar_task_execute(t, NULL, &result, &error), 0);
	CHECK_EQ(result.outcome, BELLJAR_IMAGE_MISSING);
	CHECK_EQ(result.exit_code, -1);
	CHECK(strstr(result.message, "python:9.9") != NULL);
	CHECK_EQ(belljar_task_execute(t, NULL, &result, &error), -EALREADY);
	CHECK_STR(error.text, "a task is executed once");
}

TEST(a_task_that_does_not_run_hears_nothing)
{
	BENCH(b);
	struct belljar_task_options o = { .argv = true_argv };
	AUTO_TASK *t = NULL;

	CHECK_EQ(belljar_task_new(&b.sandbox, &o, &t, NULL), 0);
	CHECK_EQ(belljar_task_signal(t, 15), -ESRCH);
	CHECK_EQ(belljar_task_resize(t, 10, 10), -ENOTTY);
	belljar_task_stop(t);
	belljar_task_stop(t);
	belljar_task_free(NULL);
}

TESTS(UNIT(zero_means_the_default), UNIT(what_is_given_is_taken), UNIT(everything_is_copied),
	UNIT(what_is_wrong_is_named_and_nothing_is_made), UNIT(a_missing_image_is_a_result),
	UNIT(a_task_that_does_not_run_hears_nothing))
