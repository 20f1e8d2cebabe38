/* Theory of operation. A clone of the interpreter is the guest where that is as good as a new one
 * (suit.h); everything else is executed as usual, in the same box.
 *
 * What differs between one run and another, argv, environment, streams, random numbers, is set
 * in the clone by adopt() of python_boot.py. Its end is the expensive part of a short program:
 * Python frees every object one by one, and each page that is touched for this has to be copied
 * first. So finish() ends what the guest has made, in Python's order, and leaves the rest to
 * the kernel. */
#include "warm/python.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
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
#include "warm/suit.h"
#include "warm/title.h"

/* Opaque to us; and what Python returns by value where it may fail. */
struct object;
struct status {
	int type;
	const char *func;
	const char *message;
	int exit_code;
};

struct compiler_flags {
	int flags;
	int feature_version;
};

#define FILE_INPUT       257    /* Py_file_input: a whole program, not one expression */
#define IGNORE_COOKIE    0x0800 /* PyCF_IGNORE_COOKIE: what -c has is UTF-8 whatever it says */
#define CONFIG_SIZE      8192   /* many times that of PyConfig in any version */
#define FLAG_BYTECODE    4      /* sys.flags.dont_write_bytecode */
#define OPTIMIZE_AS_IS   (-1)   /* as the interpreter was told */
#define SHOWS_TEXT_MINOR 13     /* 3.13, see keep_lines() */

/* Name, what it returns, what it takes. */
#define FUNCTIONS(F)                                                                               \
	F(PyConfig_InitPythonConfig, void, (void *))                                               \
	F(PyConfig_SetBytesArgv, struct status, (void *, ssize_t, char *const *))                  \
	F(PyConfig_Clear, void, (void *))                                                          \
	F(Py_InitializeFromConfig, struct status, (const void *))                                  \
	F(PyStatus_Exception, int, (struct status))                                                \
	F(PyDict_New, struct object *, (void))                                                     \
	F(PyDict_GetItemString, struct object *, (struct object *, const char *))                  \
	F(PyDict_DelItemString, int, (struct object *, const char *))                              \
	F(PyImport_AddModule, struct object *, (const char *))                                     \
	F(PyModule_GetDict, struct object *, (struct object *))                                    \
	F(PyRun_StringFlags, struct object *,                                                      \
		(const char *, int, struct object *, struct object *, struct compiler_flags *))    \
	F(PyRun_FileExFlags, struct object *,                                                      \
		(FILE *, const char *, int, struct object *, struct object *, int,                 \
			struct compiler_flags *))                                                  \
	F(Py_CompileStringExFlags, struct object *,                                                \
		(const char *, const char *, int, struct compiler_flags *, int))                   \
	F(PyEval_EvalCode, struct object *, (struct object *, struct object *, struct object *))   \
	F(PyList_New, struct object *, (ssize_t))                                                  \
	F(PyList_Append, int, (struct object *, struct object *))                                  \
	F(PyList_Size, ssize_t, (struct object *))                                                 \
	F(PyList_GetItem, struct object *, (struct object *, ssize_t))                             \
	F(PyBytes_FromString, struct object *, (const char *))                                     \
	F(PyUnicode_FromString, struct object *, (const char *))                                   \
	F(PyUnicode_AsUTF8, const char *, (struct object *))                                       \
	F(PyUnicode_DecodeUTF8, struct object *, (const char *, ssize_t, const char *))            \
	F(PyObject_CallFunctionObjArgs, struct object *, (struct object *, ...))                   \
	F(PyObject_IsTrue, int, (struct object *))                                                 \
	F(PyLong_AsLong, long, (struct object *))                                                  \
	F(PyLong_FromLong, struct object *, (long))                                                \
	F(PyStructSequence_SetItem, void, (struct object *, ssize_t, struct object *))             \
	F(PySys_GetObject, struct object *, (const char *))                                        \
	F(PyErr_Print, void, (void))                                                               \
	F(PyErr_Clear, void, (void))                                                               \
	F(PyErr_ExceptionMatches, int, (struct object *))                                          \
	F(PyErr_Fetch, void, (struct object **, struct object **, struct object **))               \
	F(PyErr_NormalizeException, void, (struct object **, struct object **, struct object **))  \
	F(Py_DecRef, void, (struct object *))                                                      \
	F(Py_MakePendingCalls, int, (void))                                                        \
	F(PyOS_BeforeFork, void, (void))                                                           \
	F(PyOS_AfterFork_Parent, void, (void))                                                     \
	F(PyOS_AfterFork_Child, void, (void))                                                      \
	F(Py_FinalizeEx, int, (void))

#define DECLARE(name, returns, takes) returns(*name) takes;
static struct {
	FUNCTIONS(DECLARE)
	struct object **PyExc_SystemExit;
	struct object **PyExc_KeyboardInterrupt;
} py;

static const struct {
	const char *name;
	void *at;
} symbols[] = {
#define ROW(name, returns, takes) { #name, &py.name },
	FUNCTIONS(ROW){ "PyExc_SystemExit", &py.PyExc_SystemExit },
	{ "PyExc_KeyboardInterrupt", &py.PyExc_KeyboardInterrupt },
};

/* What this one was started with, and what it was found to be. */
static struct python self;
static struct object *boot;  /* the namespace of python_boot.py */
static struct object *flags; /* sys.flags */
static struct object *start; /* python_start, compiled */

extern const char python_boot[];
extern const size_t python_boot_size;

static int find_symbols(struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *found = dlsym(RTLD_DEFAULT, symbols[i].name);

		if (!found)
			return err_set(err, -ENOSYS, "this interpreter has no %s", symbols[i].name);
		memcpy(symbols[i].at, &found, sizeof(found));
	}
	return 0;
}

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

static struct object *bytes_list(char *const *words)
{
	struct object *list = py.PyList_New(0);

	for (size_t i = 0; words[i]; i++)
		append(list, py.PyBytes_FromString(words[i]));
	return list;
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

int python_load(
	const char *program, const char *imports, char *notes, size_t notes_size, struct err *err)
{
	int r = find_symbols(err);

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
	if (r == 0)
		flags = py.PySys_GetObject("flags");
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

/* False when that failed, and only a new interpreter can tell why. */
static bool adopt(const struct spec *spec, const char *program, const char *file)
{
	char *const *argv = spec->argv;
	struct object *path = py.PyBytes_FromString(program);
	struct object *words = bytes_list(argv);
	struct object *env = bytes_list(spec->env);
	struct object *name = py.PyBytes_FromString(file);
	struct object *done = py.PyObject_CallFunctionObjArgs(
		boot_function("adopt"), words, env, path, name, (void *)NULL);
	const char *no_bytecode = guest_find_variable(spec, "PYTHONDONTWRITEBYTECODE");
	if (no_bytecode && *no_bytecode)
		py.PyStructSequence_SetItem(flags, FLAG_BYTECODE, py.PyLong_FromLong(1));
	py.Py_DecRef(path);
	py.Py_DecRef(words);
	py.Py_DecRef(env);
	py.Py_DecRef(name);
	if (!done)
		return false;
	py.Py_DecRef(done);
	return true;
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

/* The exit code after the program; *ret_interrupted when it is to be SIGINT instead. */
static int conclude(struct object *done, bool *ret_interrupted)
{
	struct object *type = NULL, *value = NULL, *trace = NULL;

	*ret_interrupted = false;
	if (done) {
		py.Py_DecRef(done);
		return 0;
	}
	if (!py.PyErr_ExceptionMatches(*py.PyExc_SystemExit)) {
		*ret_interrupted = py.PyErr_ExceptionMatches(*py.PyExc_KeyboardInterrupt);
		py.PyErr_Print();
		return 1;
	}
	py.PyErr_Fetch(&type, &value, &trace);
	py.PyErr_NormalizeException(&type, &value, &trace);
	struct object *code =
		py.PyObject_CallFunctionObjArgs(boot_function("exit_code"), value, (void *)NULL);
	int result = code ? (int)py.PyLong_AsLong(code) : 1;
	py.PyErr_Clear();
	py.Py_DecRef(code);
	py.Py_DecRef(type);
	py.Py_DecRef(value);
	py.Py_DecRef(trace);
	return result;
}

static void forget_file(struct object *names)
{
	if (py.PyDict_DelItemString(names, "__file__") < 0 ||
		py.PyDict_DelItemString(names, "__cached__") < 0)
		py.PyErr_Clear();
}

static _Noreturn void end(int code, bool interrupted)
{
	struct object *done =
		py.PyObject_CallFunctionObjArgs(boot_function("finish"), (void *)NULL);

	if (!done)
		py.PyErr_Print();
	if ((!done || !py.PyObject_IsTrue(done)) && py.Py_FinalizeEx() < 0)
		code = 120;
	if (interrupted) {
		(void)signal(SIGINT, SIG_DFL);
		(void)kill(getpid(), SIGINT);
		code = 128 + SIGINT;
	}
	exit(code);
}

/* The exit code of the program that -c gave, which Python ends with a line break. */
static int run_given(const char *given, struct object *names, bool *ret_interrupted)
{
	AUTO_FREE char *text = NULL;

	if (streq(given, python_start)) {
		keep_lines(start, python_start);
		return conclude(py.PyEval_EvalCode(start, names, names), ret_interrupted);
	}
	if (asprintf(&text, "%s\n", given) < 0)
		abort();
	return conclude(run_text(text, names), ret_interrupted);
}

static int run_named(const char *path, struct object *names, bool *ret_interrupted)
{
	int code = conclude(run_file(path, names), ret_interrupted);

	forget_file(names);
	return code;
}

static _Noreturn void be_guest(const struct spec *spec, const char *program)
{
	char file[2 * PATH_MAX] = "";
	bool interrupted;
	bool is_file = !streq(spec->argv[1], "-c");

	environ = spec->env;
	if (is_file)
		make_absolute(spec->argv[1], file, sizeof(file));
	if (!adopt(spec, program, file)) {
		guest_reset_signals();
		(void)execve(program, spec->argv, spec->env);
		_exit(127);
	}
	struct object *names = py.PyModule_GetDict(py.PyImport_AddModule("__main__"));
	int code;
	/* What a signal asked for comes before the program. */
	if (py.Py_MakePendingCalls() < 0)
		code = conclude(NULL, &interrupted);
	else if (is_file)
		code = run_named(file, names, &interrupted);
	else
		code = run_given(spec->argv[2], names, &interrupted);
	end(code, interrupted);
}

/* In the clone. Init waits for the end of the pipe, or for what went wrong. */
static _Noreturn void become_guest(
	const struct spec *spec, const struct guest_fds *fds, const char *program, int told_fd)
{
	sigset_t none;
	const char *failed = guest_settle(spec, fds, told_fd);

	if (failed) {
		char text[256];
		int n = snprintf(text, sizeof(text), "cannot %s: %s", failed, strerror(errno));
		(void)fd_write_full(told_fd, text, (size_t)n);
		_exit(127);
	}
	(void)close(told_fd);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	title_set(spec->argv, spec->env);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
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
	if (!*ret_is_clone)
		return guest_start(spec, fds, err);
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
