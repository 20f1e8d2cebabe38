/* Theory of operation. A clone of the interpreter is the guest where that is as good as a new one
 * (suit.h); everything else is executed as usual, in the same box.
 *
 * What differs between one run and another, argv, environment, streams, random numbers, is set
 * in the clone by adopt.c; how it ends is end.c's. */
#include "warm/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/guest.h"
#include "ipc/spec.h"
#include "lang/python_start.h"
#include "warm/adopt.h"
#include "warm/cpython.h"
#include "warm/end.h"
#include "warm/suit.h"
#include "warm/title.h"

#define FILE_INPUT       257    /* Py_file_input: a whole program, not one expression */
#define IGNORE_COOKIE    0x0800 /* PyCF_IGNORE_COOKIE: what -c has is UTF-8 whatever it says */
#define CONFIG_SIZE      8192   /* many times that of PyConfig in any version */
#define OPTIMIZE_AS_IS   (-1)   /* as the interpreter was told */
#define SHOWS_TEXT_MINOR 13     /* 3.13, see keep_lines() */

/* What this one was started with, and what it was found to be. */
static struct python self;
static struct object *boot;  /* the namespace of python_boot.py */
static struct object *start; /* python_start, compiled */

extern const char python_boot[];
extern const size_t python_boot_size;

static int initialize(struct err *err)
{
	AUTO_FREE void *config = xcalloc(1, CONFIG_SIZE);
	char *argv[] = { (char *)"python3", NULL };

	py.PyConfig_InitPythonConfig(config);
	struct status s = py.PyConfig_SetBytesArgv(config, 1, argv);
	if (!py.PyStatus_Exception(s))
		s = py.Py_InitializeFromConfig(config);
	py.PyConfig_Clear(config);
	if (py.PyStatus_Exception(s))
		return err_set(err, -EIO, "start Python: %s", s.message ? s.message : "?");
	return 0;
}

static struct object *boot_function(const char *name)
{
	return py.PyDict_GetItemString(boot, name);
}

static int load_boot(struct err *err)
{
	AUTO_FREE char *source = xcalloc(1, python_boot_size + 1);

	memcpy(source, python_boot, python_boot_size);
	boot = py.PyDict_New();
	struct object *done = py.PyRun_StringFlags(source, FILE_INPUT, boot, boot, NULL);
	if (!done) {
		py.PyErr_Print();
		return err_set(err, -EIO, "prepare Python");
	}
	return 0;
}

static void append(struct object *list, struct object *word)
{
	(void)py.PyList_Append(list, word);
	py.Py_DecRef(word);
}

static struct object *split_names(const char *names)
{
	AUTO_FREE char *copy = xstrdup(names);
	struct object *list = py.PyList_New(0);
	char *rest = NULL;

	for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		append(list, py.PyUnicode_FromString(name));
	return list;
}

static int import(const char *names, char *notes, size_t size, struct err *err)
{
	struct object *list = split_names(names);
	struct object *failed =
		py.PyObject_CallFunctionObjArgs(boot_function("prepare"), list, (void *)NULL);
	size_t used = 0;

	notes[0] = '\0';
	if (!failed) {
		py.PyErr_Print();
		return err_set(err, -EIO, "import what is to be warm");
	}
	for (ssize_t i = 0; i < py.PyList_Size(failed) && used < size; i++) {
		const char *text = py.PyUnicode_AsUTF8(py.PyList_GetItem(failed, i));

		used += (size_t)snprintf(
			notes + used, size - used, "%s%s", used ? "; " : "", text ? text : "?");
	}
	return 0;
}

/* In a clone that would take longer than many a program that it is for. */
static int compile_start(struct err *err)
{
	start = py.Py_CompileStringExFlags(
		python_start, PYTHON_START_NAME, FILE_INPUT, NULL, OPTIMIZE_AS_IS);
	if (start)
		return 0;
	py.PyErr_Print();
	return err_set(err, -EIO, "compile what starts code");
}

/* Kept as text: whether they are in somebody's way is asked in the init of a box. */
static int list_imported(struct err *err)
{
	struct object *list =
		py.PyObject_CallFunctionObjArgs(boot_function("imported"), (void *)NULL);

	if (!list) {
		py.PyErr_Print();
		return err_set(err, -EIO, "list what was imported");
	}
	ssize_t n = py.PyList_Size(list);
	self.imported = xcalloc((size_t)n + 1, sizeof(*self.imported));
	for (ssize_t i = 0; i < n; i++) {
		const char *name = py.PyUnicode_AsUTF8(py.PyList_GetItem(list, i));

		self.imported[i] = xstrdup(name ? name : "?");
	}
	return 0;
}

static int find_version(struct err *err)
{
	const unsigned long *version = dlsym(RTLD_DEFAULT, "Py_Version");

	if (!version || *version >> 24 != 3)
		return err_set(err, -ENOSYS, "this is no Python 3.11 or later");
	self.minor = (int)(*version >> 16 & 0xff);
	return 0;
}

/* Holes are filled: what a clone allocates comes from few pages that it has for itself then, and
 * not from many that it shares and would have to copy. */
static void fill_holes(void)
{
	char *top = (char *)sbrk(0) - mallinfo2().keepcost;

	for (size_t size = 32 << 10; size >= 24; size -= size > 1032 ? size / 8 : 16) {
		for (int i = 0; i < 1000 && (char *)malloc(size) < top; i++)
			;
	}
	for (size_t size = 16; size <= 512; size += 16) {
		for (int i = 0; i < 2000 && ((uintptr_t)py.PyObject_Malloc(size) & 0x3fff) != 0x30;
			i++)
			;
	}
}

int python_load(
	const char *program, const char *imports, char *notes, size_t notes_size, struct err *err)
{
	int r = cpython_find(err);

	/* A copy: the inits of boxes wipe what this was started with. */
	self.home = xstrdup(getenv("HOME") ? getenv("HOME") : "");
	end_begin();
	if (r == 0)
		r = find_version(err);
	if (r == 0 && stat(program, &self.program) < 0)
		r = err_errno(err, "look at %s", program);
	if (r == 0)
		r = initialize(err);
	if (r == 0)
		r = load_boot(err);
	if (r == 0)
		r = compile_start(err);
	if (r == 0)
		r = import(imports, notes, notes_size, err);
	if (r == 0)
		r = list_imported(err);
	if (r == 0) {
		self.magic = (int)(py.PyImport_GetMagicNumber() & 0xffff);
		adopt_prepare(boot);
		end_prepare(boot);
		fill_holes();
	}
	return r;
}

bool python_is_utf8(const char *text)
{
	struct object *decoded = py.PyUnicode_DecodeUTF8(text, (ssize_t)strlen(text), "strict");

	if (!decoded)
		py.PyErr_Clear();
	else
		py.Py_DecRef(decoded);
	return decoded != NULL;
}

/* What Python makes of the name of its file: "main.py" is /workspace/main.py in tracebacks. */
static void make_absolute(const char *path, char *buf, size_t size)
{
	char here[PATH_MAX];

	if (path[0] == '/' || !getcwd(here, sizeof(here))) {
		(void)snprintf(buf, size, "%s", path);
		return;
	}
	(void)snprintf(buf, size, "%s/%s", here, path);
}

/* From 3.13 on tracebacks show the lines of what -c gave, which Python keeps for them. */
static void keep_lines(struct object *code, const char *text)
{
	if (self.minor < SHOWS_TEXT_MINOR)
		return;
	struct object *lines = py.PyUnicode_FromString(text);
	struct object *done = py.PyObject_CallFunctionObjArgs(
		boot_function("keep_lines"), code, lines, (void *)NULL);

	py.Py_DecRef(lines);
	py.Py_DecRef(done);
	py.PyErr_Clear();
}

static struct object *run_text(const char *text, struct object *names)
{
	struct compiler_flags how = { IGNORE_COOKIE, self.minor };
	struct object *code =
		py.Py_CompileStringExFlags(text, "<string>", FILE_INPUT, &how, OPTIMIZE_AS_IS);

	if (!code)
		return NULL;
	keep_lines(code, text);
	struct object *done = py.PyEval_EvalCode(code, names, names);
	py.Py_DecRef(code);
	return done;
}

static struct object *run_file(const char *path, struct object *names)
{
	struct compiler_flags how = { 0, self.minor };
	FILE *file = fopen(path, "rbe");

	if (!file)
		_exit(2); /* it was there a moment ago, and nobody else is in this box */
	return py.PyRun_FileExFlags(file, path, FILE_INPUT, names, names, 1, &how);
}

static void forget_file(struct object *names)
{
	static const char *const forgotten[] = { "__file__", "__cached__" };

	for (size_t i = 0; i < ARRAY_SIZE(forgotten); i++) {
		if (py.PyDict_DelItemString(names, forgotten[i]) < 0)
			py.PyErr_Clear();
	}
}

/* The program that -c gave, which Python ends with a line break. */
static void run_given(const char *given, struct object *names)
{
	size_t size = strlen(given);
	AUTO_FREE char *text = xcalloc(1, size + 2);

	if (streq(given, python_start)) {
		keep_lines(start, python_start);
		(void)end_conclude(py.PyEval_EvalCode(start, names, names));
		return;
	}
	memcpy(text, given, size);
	text[size] = '\n';
	(void)end_conclude(run_text(text, names));
}

/* As Python does after a file, whatever came of it. */
static void flush(void)
{
	static const char *const streams[] = { "stderr", "stdout" };
	struct object *type = NULL, *value = NULL, *trace = NULL;

	py.PyErr_Fetch(&type, &value, &trace);
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
		struct object *stream = py.PySys_GetObject(streams[i]);
		struct object *method = stream ? py.PyObject_GetAttrString(stream, "flush") : NULL;

		if (method)
			py.Py_DecRef(py.PyObject_CallFunctionObjArgs(method, (void *)NULL));
		py.Py_DecRef(method);
		py.PyErr_Clear();
	}
	py.PyErr_Restore(type, value, trace);
}

static void run_named(const char *path, struct object *names)
{
	struct object *done = run_file(path, names);

	flush();
	if (!end_conclude(done))
		forget_file(names);
}

/* The guest may take its main module away while it runs. */
static void run(const struct spec *spec, const char *file)
{
	struct object *module = py.PyImport_AddModule("__main__");
	struct object *names = py.PyModule_GetDict(module);

	py.Py_IncRef(module);
	py.Py_IncRef(names);
	/* What a signal asked for comes before the program. */
	if (py.Py_MakePendingCalls() < 0)
		(void)end_conclude(NULL);
	else if (file[0])
		run_named(file, names);
	else
		run_given(spec->argv[2], names);
	py.Py_DecRef(module);
	py.Py_DecRef(names);
}

static _Noreturn void be_guest(const struct spec *spec, const char *program)
{
	char file[2 * PATH_MAX] = "";

	environ = spec->env;
	if (!streq(spec->argv[1], "-c"))
		make_absolute(spec->argv[1], file, sizeof(file));
	if (!adopt_spec(spec, program, file)) {
		guest_reset_handlers();
		guest_unblock_signals();
		(void)execve(program, spec->argv, spec->env);
		_exit(127);
	}
	end_expect();
	run(spec, file);
	end_now();
}

/* In the clone. Init waits for the end of the pipe, or for what went wrong. */
static _Noreturn void become_guest(
	const struct spec *spec, const struct guest_fds *fds, const char *program, int told_fd)
{
	const char *failed = guest_settle(spec, fds, told_fd);

	if (failed) {
		char text[256];
		int n = snprintf(text, sizeof(text), "cannot %s: %s", failed, strerror(errno));
		(void)fd_write_full(told_fd, text, (size_t)n);
		_exit(127);
	}
	(void)close(told_fd);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	title_set(program, spec->argv, spec->env);
	guest_unblock_signals();
	be_guest(spec, program);
}

/* Wait until it is the guest, or has failed to become it. */
static pid_t hear(pid_t pid, int heard_fd, struct err *err)
{
	char text[sizeof(err->text)] = "";
	ssize_t n = fd_read_full(heard_fd, text, sizeof(text) - 1);

	if (n == 0)
		return pid;
	(void)waitpid(pid, NULL, 0);
	return err_set(err, -EIO, "%s", text);
}

pid_t python_fork(void)
{
	py.PyOS_BeforeFork();
	pid_t pid = fork();
	int saved = errno;
	if (pid == 0)
		py.PyOS_AfterFork_Child();
	else
		py.PyOS_AfterFork_Parent();
	errno = saved;
	return pid;
}

pid_t python_start_guest(
	const struct spec *spec, const struct guest_fds *fds, bool *ret_is_clone, struct err *err)
{
	char program[PATH_MAX];
	AUTO_FD heard_fd = -1;
	AUTO_FD told_fd = -1;

	*ret_is_clone = suit_is_clone_as_good(&self, spec, program, sizeof(program));
	if (!*ret_is_clone) {
		guest_reset_handlers(); /* those of Python are its clones' */
		return guest_start(spec, fds, err);
	}
	int r = fd_pipe(&heard_fd, &told_fd);
	if (r < 0)
		return err_set(err, r, "make a pipe");
	pid_t pid = python_fork();
	if (pid == 0)
		become_guest(spec, fds, program, told_fd);
	if (pid < 0)
		return err_errno(err, "start a process");
	close_fdp(&told_fd);
	return hear(pid, heard_fd, err);
}
