/* How long it takes from asking for /bin/true to knowing how it ended, for us and
 * for the peers, interleaved in one run so that a noisy machine is noisy for all:
 *
 *   bare_true      posix_spawn and nothing else
 *   unshare_floor  clone3 with the namespaces of a box, and nothing else
 *   bwrap_true     bubblewrap with comparable mounts
 *   runc_true      runc with its default protections
 *   box_true       the library and a running keeper, every protection on
 *
 * then 10,000 boxes in a row, to see whether time or memory grows. Prints JSON.
 *
 *	start PROGRAM ROOT RUNC_BUNDLE [ROUNDS [BOXES]] */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "belljar.h"

#define NAMESPACES                                                                                 \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
		CLONE_NEWCGROUP)
#define ROUNDS_DEFAULT 300
#define BOXES_DEFAULT  10000
#define WINDOW         500 /* boxes at the start and at the end that are compared */

struct bench {
	struct belljar_sandbox *sandbox;
	const char *bundle;
	pid_t keeper;
	unsigned n_runs;
};

static _Noreturn void die(const char *what)
{
	(void)fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void await(pid_t pid, const char *what)
{
	int status = 0;

	if (waitpid(pid, &status, 0) < 0 || status != 0) {
		(void)fprintf(stderr, "bench: %s ended with status %x\n", what, (unsigned)status);
		exit(EXIT_FAILURE);
	}
}

static void spawn(const char *const *argv)
{
	pid_t pid;

	errno = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (errno)
		die(argv[0]);
	await(pid, argv[0]);
}

static void run_bare(struct bench *b)
{
	(void)b;
	spawn((const char *const[]){ "/bin/true", NULL });
}

static void run_floor(struct bench *b)
{
	struct clone_args args = { .flags = NAMESPACES, .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	(void)b;
	if (pid < 0)
		die("clone3");
	if (pid == 0) {
		(void)execve("/bin/true", (char *const[]){ (char *)"true", NULL }, environ);
		_exit(127);
	}
	await(pid, "the floor");
}

static void run_bwrap(struct bench *b)
{
	(void)b;
	spawn((const char *const[]){ "bwrap", "--unshare-all", "--new-session", "--die-with-parent",
		"--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc",
		"/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir",
		"/workspace", "--", "/bin/true", NULL });
}

static void run_runc(struct bench *b)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "bench-%d-%u", (int)getpid(), b->n_runs++);
	spawn((const char *const[]){ "runc", "run", "--bundle", b->bundle, name, NULL });
}

static void run_box(struct bench *b)
{
	struct belljar_error error;
	struct belljar_result result;
	struct belljar_task *task;
	struct belljar_task_options options = {
		.argv = (const char *const[]){ "/bin/true", NULL },
		.input = "",
	};

	if (belljar_task_new(b->sandbox, &options, &task, &error) < 0 ||
		belljar_task_execute(task, NULL, &result, &error) < 0) {
		(void)fprintf(stderr, "bench: box: %s\n", error.text);
		exit(EXIT_FAILURE);
	}
	if (result.outcome != BELLJAR_SUCCESS) {
		(void)fprintf(stderr, "bench: box: %s\n", result.message);
		exit(EXIT_FAILURE);
	}
	belljar_task_free(task);
}

static const struct {
	const char *name;
	void (*run)(struct bench *b);
} contestants[] = {
	{ "start.bare_true_ms", run_bare },
	{ "start.unshare_floor_ms", run_floor },
	{ "start.bwrap_true_ms", run_bwrap },
	{ "start.runc_true_ms", run_runc },
	{ "start.box_true_ms", run_box },
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static double percentile(double *sorted, size_t n, double p)
{
	size_t i = (size_t)((double)n * p);

	return sorted[i < n ? i : n - 1];
}

static double time_one(struct bench *b, void (*run)(struct bench *b))
{
	uint64_t before = clock_monotonic_ns();

	run(b);
	return (double)(clock_monotonic_ns() - before) / 1e6;
}

static json_t *summary(double *times, size_t n)
{
	qsort(times, n, sizeof(*times), compare);
	return json_pack("{s:f, s:f, s:f, s:I}", "p50", percentile(times, n, 0.5), "p99",
		percentile(times, n, 0.99), "min", times[0], "rounds", (json_int_t)n);
}

static void measure_start(struct bench *b, size_t rounds, json_t *out)
{
	double *times = xcalloc(ARRAY_SIZE(contestants) * rounds, sizeof(*times));

	for (size_t i = 0; i < 20 * ARRAY_SIZE(contestants); i++) /* warm the caches */
		contestants[i % ARRAY_SIZE(contestants)].run(b);
	for (size_t r = 0; r < rounds; r++) {
		for (size_t i = 0; i < ARRAY_SIZE(contestants); i++)
			times[i * rounds + r] = time_one(b, contestants[i].run);
	}
	for (size_t i = 0; i < ARRAY_SIZE(contestants); i++)
		(void)json_object_set_new(
			out, contestants[i].name, summary(times + i * rounds, rounds));
	free(times);
}

/* Anonymous memory of the keeper in KiB. Not its PSS, which falls and rises with the
 * number of boxes that still share pages with it. */
static long read_anonymous(pid_t pid)
{
	char path[64];
	char line[256];
	long kib = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f)) {
		const char *value = str_after(line, "Anonymous:");

		if (value)
			kib = strtol(value, NULL, 10);
	}
	(void)fclose(f);
	return kib;
}

static void measure_growth(struct bench *b, size_t n, json_t *out)
{
	double *times = xcalloc(n, sizeof(*times));
	long first_kib = 0;

	for (size_t i = 0; i < n; i++) {
		times[i] = time_one(b, run_box);
		if (i == WINDOW)
			first_kib = read_anonymous(b->keeper);
	}
	long last_kib = read_anonymous(b->keeper);
	json_t *first = summary(times, WINDOW);
	json_t *last = summary(times + n - WINDOW, WINDOW);
	(void)json_object_set_new(out, "start.box_growth",
		json_pack("{s:I, s:o, s:o, s:I, s:I}", "runs", (json_int_t)n, "first_ms", first,
			"last_ms", last, "keeper_first_kib", (json_int_t)first_kib,
			"keeper_last_kib", (json_int_t)last_kib));
	free(times);
}

static pid_t start_keeper(const char *program, const char *root)
{
	const char *argv[] = { program, "keeper", "--root", root, NULL };
	pid_t pid;

	errno = posix_spawn(&pid, program, NULL, NULL, (char *const *)argv, environ);
	if (errno)
		die(program);
	return pid;
}

/* The keeper needs a moment until it listens. */
static struct belljar_sandbox *open_sandbox(const char *root)
{
	struct belljar_options options = { .root = root, .keeper = BELLJAR_KEEPER_RUNNING };
	struct belljar_sandbox *sandbox = NULL;
	struct belljar_error error = { 0 };

	for (int i = 0; i < 200; i++) {
		if (belljar_open(&options, &sandbox, &error) == 0)
			return sandbox;
		(void)usleep(10000);
	}
	(void)fprintf(stderr, "bench: %s\n", error.text);
	exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		(void)fprintf(stderr, "usage: start PROGRAM ROOT RUNC_BUNDLE [ROUNDS [BOXES]]\n");
		return EXIT_FAILURE;
	}
	struct bench b = { .bundle = argv[3] };
	size_t rounds = argc > 4 ? strtoul(argv[4], NULL, 10) : ROUNDS_DEFAULT;
	size_t boxes = argc > 5 ? strtoul(argv[5], NULL, 10) : BOXES_DEFAULT;
	json_t *out = json_object();

	b.keeper = start_keeper(argv[1], argv[2]);
	b.sandbox = open_sandbox(argv[2]);
	measure_start(&b, rounds, out);
	if (boxes > 2 * WINDOW)
		measure_growth(&b, boxes, out);
	belljar_close(b.sandbox);
	(void)kill(b.keeper, SIGTERM);
	(void)waitpid(b.keeper, NULL, 0);
	AUTO_FREE char *text = json_dumps(out, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	(void)puts(text);
	json_decref(out);
	return EXIT_SUCCESS;
}
