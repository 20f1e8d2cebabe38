/* Theory of operation. The end of an interpreter is the expensive part of a short program: Python
 * frees every object one by one, and each page that is touched for this has to be copied first.
 * What a guest can notice of it comes before that, or is of its own objects: threads, functions
 * registered for the end, output, garbage, then its modules with all they hold.
 *
 * So Py_FinalizeEx() is left before it ends what the template had loaded, at one of two places
 * where it calls us. First when it has begun with the modules, and takes the import hooks
 * away: there is a weak reference to one of them. That is all there is to it if the guest has left
 * nothing but memory. Else a module of ours is added to the others, behind them all. Python
 * forgets all modules, collects, and clears those that are still there from the last to the
 * first: when it clears ours, everything that only the guest had has ended. If something else is
 * left, or in doubt, Python goes on to its end, with all that we held on to let go. */
#include "warm/end.h"

#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "warm/cpython.h"
#include "warm/left.h"

/* Of Python's stable interface. */
#define TAKES_ONE    8 /* METH_O */
#define PRINT_RAW    1
#define IS_INT       (1ul << 24)
#define IS_EXCEPTION (1ul << 30)

#define LOOK_MAX_KB (16l << 10) /* that a guest may have used for all of it to be looked at */

static const char *const stream_names[] = { "stdout", "stderr" };

/* Of the template. */
static struct object *boot;
static struct object *filters;   /* of warnings */
static struct object *callbacks; /* of the collector */
static struct object *collect, *freeze, *unfreeze, *get_freeze_count;
static struct object *dict_name, *closed_name, *flush_name; /* that it remembers methods by */
static ssize_t n_filters;
static long n_frozen;
static unsigned long long n_libraries; /* that the interpreter itself needs */

/* Of the guest. */
static long peak_before_kb;
static unsigned long long n_libraries_before;
static struct object *streams[ARRAY_SIZE(stream_names)];
static int code; /* to exit with */
static bool is_interrupted;
static bool is_small;  /* enough to look at all that it has */
static bool is_ending; /* and Python may be left before it is done */

static int count_libraries(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	*(unsigned long long *)ret = info->dlpi_adds;
	return 1; /* each says how many there are in all */
}

static unsigned long long libraries(void)
{
	unsigned long long n = 0;

	(void)dl_iterate_phdr(count_libraries, &n);
	return n;
}

static long peak_kb(void)
{
	struct rusage used = { 0 };

	(void)getrusage(RUSAGE_SELF, &used);
	return used.ru_maxrss;
}

/* With what was asked to be done at the end of the process, which only libraries do. */
static _Noreturn void leave(void)
{
	if (is_interrupted) {
		(void)signal(SIGINT, SIG_DFL);
		(void)kill(getpid(), SIGINT);
		code = 128 + SIGINT;
	}
	if (libraries() > n_libraries)
		exit(code);
	(void)fflush(NULL);
	_exit(code);
}

static void *refuse(void *unused)
{
	(void)unused;
	py.PyErr_NoMemory();
	return NULL;
}

/* Python asks for the arguments of an event only if somebody is to hear of it; without them
 * nobody does. */
static bool is_audited(void)
{
	bool is = py.PySys_Audit("end", "O&", refuse, NULL) < 0;

	py.PyErr_Clear();
	return is;
}

/* Still the one that the guest was started with, and with no method of the guest's. */
static bool is_untouched(size_t i)
{
	struct object *stream = py.PySys_GetObject(stream_names[i]);

	if (!stream || stream != streams[i])
		return false;
	struct object *attributes = py.PyObject_GetAttr(stream, dict_name);
	ssize_t n = attributes ? py.PyDict_Size(attributes) : -1;
	py.PyErr_Clear();
	py.Py_DecRef(attributes);
	return n == 1; /* its mode */
}

/* Whether Python may be left: not if it has a part that would be missed, such as the code to exit
 * with when a stream of the guest's own can not be flushed, or warnings of what is not closed. */
static bool may_stop(void)
{
	return is_untouched(0) && is_untouched(1) && py.PyList_Size(filters) == n_filters &&
	       py.PyList_Size(callbacks) == 0 && !is_audited();
}

static bool flush(struct object *stream)
{
	struct object *closed = py.PyObject_GetAttr(stream, closed_name);
	bool done = closed && py.PyObject_IsTrue(closed) > 0;

	if (!done) {
		struct object *method = py.PyObject_GetAttr(stream, flush_name);
		struct object *result =
			method ? py.PyObject_CallFunctionObjArgs(method, (void *)NULL) : NULL;

		done = result != NULL;
		py.Py_DecRef(method);
		py.Py_DecRef(result);
	}
	py.PyErr_Clear();
	py.Py_DecRef(closed);
	return done;
}

/* What Python would do when it frees the streams, but of no consequence to it. */
static bool flush_all(void)
{
	return flush(streams[0]) && flush(streams[1]);
}

static void call(struct object *function)
{
	py.Py_DecRef(py.PyObject_CallFunctionObjArgs(function, (void *)NULL));
	py.PyErr_Clear();
}

/* Whether the guest has frozen what is its own; it meant all there was then. */
static bool is_frozen(void)
{
	struct object *n = py.PyObject_CallFunctionObjArgs(get_freeze_count, (void *)NULL);
	bool is = !n || py.PyLong_AsLong(n) > n_frozen;

	py.PyErr_Clear();
	py.Py_DecRef(n);
	return is;
}

/* Whatever the template has is to end, too, as if it had never been frozen, and in the order in
 * which it was made: before the guest's. */
static void let_go(void)
{
	if (!is_frozen()) {
		call(freeze);
		call(unfreeze);
	}
	py.PyDict_Clear(boot);
}

/* Our module is cleared. */
static void on_cleared(struct object *capsule)
{
	(void)capsule;
	/* What is left of the imports is theirs. */
	if (left_look(libraries() == n_libraries_before) == LEFT_NOTHING && flush_all())
		leave();
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		py.Py_DecRef(streams[i]);
	let_go();
	call(collect);
}

static void watch_modules(void)
{
	struct object *module = py.PyModule_New("end"); /* ours for good: it must not go first */
	struct object *capsule = py.PyCapsule_New(&code, NULL, on_cleared);

	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		py.Py_IncRef(streams[i]);
	(void)py.PyDict_SetItemString(py.PyModule_GetDict(module), "_", capsule);
	(void)py.PyDict_SetItemString(py.PyImport_GetModuleDict(), "", module);
	py.Py_DecRef(capsule);
}

/* When Python begins to end, and before: who ends all has to begin with all. */
static enum left look(void)
{
	if (!may_stop())
		return LEFT_HIDDEN;
	if (!is_small)
		return LEFT_THINGS;
	enum left left = left_look(false);
	/* What libraries make need not be on the list. */
	return left == LEFT_NOTHING && libraries() > n_libraries_before ? LEFT_THINGS : left;
}

/* The import hook is gone. */
static struct object *on_hook_gone(struct object *self, struct object *reference)
{
	(void)self;
	(void)reference;
	if (is_ending && !py.Py_IsInitialized()) {
		enum left left = look();

		if (left == LEFT_NOTHING && flush_all())
			leave();
		if (left == LEFT_THINGS)
			watch_modules();
		else
			let_go();
	}
	return py.PyBool_FromLong(0);
}

void end_begin(void)
{
	n_libraries = libraries();
}

static void watch_hook(void)
{
	static struct method_definition on_gone = { "end", on_hook_gone, TAKES_ONE, NULL };
	struct object *function = py.PyCFunction_NewEx(&on_gone, NULL, NULL);
	struct object *hook = py.PyObject_CallFunctionObjArgs(
		py.PyDict_GetItemString(boot, "own_hook"), (void *)NULL);

	if (!hook || !py.PyWeakref_NewRef(hook, function))
		py.PyErr_Clear(); /* then Python does it all */
	py.Py_DecRef(function);
	py.Py_DecRef(hook);
}

void end_expect(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		streams[i] = py.PySys_GetObject(stream_names[i]);
	n_libraries_before = libraries();
	peak_before_kb = peak_kb();
	left_expect();
}

/* What Python remembers of this, and frees for it, is not for each clone to write to a page. */
static void rehearse(void)
{
	end_expect();
	is_small = true;
	(void)look();
	(void)flush_all();
	call(collect);
}

void end_prepare(struct object *names)
{
	boot = names;
	filters = cpython_bind(boot, "_warnings", "filters");
	n_filters = py.PyList_Size(filters);
	dict_name = py.PyUnicode_InternFromString("__dict__");
	closed_name = py.PyUnicode_InternFromString("closed");
	flush_name = py.PyUnicode_InternFromString("flush");
	callbacks = cpython_bind(boot, "gc", "callbacks");
	collect = cpython_bind(boot, "gc", "collect");
	freeze = cpython_bind(boot, "gc", "freeze");
	unfreeze = cpython_bind(boot, "gc", "unfreeze");
	get_freeze_count = cpython_bind(boot, "gc", "get_freeze_count");
	struct object *n = py.PyObject_CallFunctionObjArgs(get_freeze_count, (void *)NULL);
	n_frozen = py.PyLong_AsLong(n);
	py.Py_DecRef(n);
	left_prepare(boot);
	watch_hook();
	rehearse();
}

/* To standard error, also if the guest has none. */
static void say(struct object *value)
{
	struct object *stream = py.PySys_GetObject("stderr");

	py.PyErr_Clear();
	if (stream && stream != py._Py_NoneStruct)
		(void)py.PyFile_WriteObject(value, stream, PRINT_RAW);
	else
		(void)py.PyObject_Print(value, stderr, PRINT_RAW);
	py.PySys_WriteStderr("\n");
}

static bool is_a(struct object *object, unsigned long flag)
{
	return py.PyType_GetFlags(object->type) & flag;
}

/* What Python makes of SystemExit; its value need not be an exception yet, or is another one. */
static int exit_code(void)
{
	struct object *type = NULL, *value = NULL, *trace = NULL, *given = NULL;
	int result = 0;

	py.PyErr_Fetch(&type, &value, &trace);
	if (value && is_a(value, IS_EXCEPTION))
		given = py.PyObject_GetAttrString(value, "code");
	struct object *what = given ? given : value;
	if (what && is_a(what, IS_INT)) {
		result = (int)py.PyLong_AsLong(what);
	} else if (what && what != py._Py_NoneStruct) {
		say(what);
		result = 1;
	}
	py.PyErr_Clear();
	py.Py_DecRef(given);
	py.Py_DecRef(type);
	py.Py_DecRef(value);
	py.Py_DecRef(trace);
	return result;
}

bool end_conclude(struct object *done)
{
	py.Py_DecRef(done);
	if (done)
		return false;
	if (py.PyErr_ExceptionMatches(*py.PyExc_SystemExit)) {
		code = exit_code();
		return true;
	}
	is_interrupted = py.PyErr_Occurred() == *py.PyExc_KeyboardInterrupt;
	py.PyErr_Print();
	code = 1;
	return false;
}

/* The collector's order is that of finalizers. In a new interpreter, what holds the guest's names
 * is older than what is young then, and behind it. */
static void age_names(void)
{
	struct object *module = py.PyDict_GetItemString(py.PyImport_GetModuleDict(), "__main__");
	struct object *names = module ? py.PyModule_GetDict(module) : NULL;

	py.PyErr_Clear();
	if (names) {
		py.PyObject_GC_UnTrack(names);
		py.PyObject_GC_Track(names);
	}
}

_Noreturn void end_now(void)
{
	is_small = peak_kb() - peak_before_kb < LOOK_MAX_KB;
	is_ending = look() != LEFT_HIDDEN;
	if (is_small && (is_ending || !is_frozen()))
		age_names();
	if (!is_ending)
		let_go();
	if (py.Py_FinalizeEx() < 0)
		code = 120;
	leave();
}
