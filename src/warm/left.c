/* Theory of operation. The collector lists whatever can hold references, and the type of an
 * object says what happens at its end. A class that Python code made does what its bases do,
 * unless it has a finalizer. One that was made in C is trusted if what ends its objects is a
 * part of the interpreter itself: these free memory and nothing else, if they have none. */
#include "warm/left.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "warm/cpython.h"

/* Of Python's stable interface. */
#define TP_BASE     48
#define TP_DEALLOC  52
#define TP_FINALIZE 80
#define HAS_GC      (1ul << 14)
#define IS_TYPE     (1ul << 31)

static uintptr_t code_from, code_to; /* where the interpreter is */
static struct object *get_objects;   /* of the collector, as it was before any guest */
static struct object *weak_type;     /* weakref.ref */
static struct object *builtin_type;  /* of len */
static struct object *function_type;
static struct object *callback_name; /* that Python remembers what it finds by */
static void *made_dealloc;           /* of a class that Python code made */
static struct object *witness;       /* what a guest freezes, it freezes with this */

static bool is_made(struct object *type)
{
	return py.PyType_GetSlot(type, TP_DEALLOC) == made_dealloc;
}

/* The object that has the function which ends an interpreter. */
static int find_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	uintptr_t within = (uintptr_t)py.Py_FinalizeEx;

	(void)size;
	(void)unused;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t to = from + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && within >= from && within < to) {
			code_from = from;
			code_to = to;
			return 1;
		}
	}
	return 0;
}

void left_prepare(struct object *boot)
{
	get_objects = cpython_bind(boot, "gc", "get_objects");
	weak_type = cpython_bind(boot, "weakref", "ref");
	callback_name = py.PyUnicode_InternFromString("__callback__");
	builtin_type = get_objects->type;
	function_type = py.PyDict_GetItemString(boot, "prepare")->type;
	made_dealloc = py.PyType_GetSlot(py.PyDict_GetItemString(boot, "Made"), TP_DEALLOC);
	(void)dl_iterate_phdr(find_code, NULL);
}

void left_expect(void)
{
	witness = py.PyList_New(0);
}

/* Instances of such a class, which have no attributes of their own, are not on the list. */
static bool hides_finalizer(struct object *type)
{
	return is_made(type) && py.PyType_GetSlot(type, TP_FINALIZE) &&
	       !(py.PyType_GetFlags(type) & HAS_GC);
}

static enum left look_at_type(struct object *type, bool is_trusting)
{
	for (; is_made(type); type = py.PyType_GetSlot(type, TP_BASE)) {
		if (py.PyType_GetSlot(type, TP_FINALIZE))
			return LEFT_THINGS;
	}
	uintptr_t dealloc = (uintptr_t)py.PyType_GetSlot(type, TP_DEALLOC);
	bool is_own = dealloc >= code_from && dealloc < code_to;
	return (is_own || is_trusting) && !py.PyType_GetSlot(type, TP_FINALIZE) ? LEFT_NOTHING
										: LEFT_THINGS;
}

/* Whether it is one of those that only take out of a list what is gone. */
static bool is_tidying(struct object *callback)
{
	static const char *const modules[] = { "weakref", "_weakrefset", "logging" };
	bool is = callback == py._Py_NoneStruct || callback->type == builtin_type;

	if (callback->type != function_type)
		return is;
	struct object *module = py.PyObject_GetAttrString(callback, "__module__");
	const char *name = module ? py.PyUnicode_AsUTF8(module) : NULL;
	for (size_t i = 0; name && i < ARRAY_SIZE(modules); i++)
		is = is || streq(name, modules[i]);
	py.PyErr_Clear();
	py.Py_DecRef(module);
	return is;
}

static enum left look_at_weak(struct object *reference)
{
	struct object *callback = py.PyObject_GetAttr(reference, callback_name);
	bool is_quiet = callback && is_tidying(callback);

	py.Py_DecRef(callback);
	return is_quiet ? LEFT_NOTHING : LEFT_THINGS;
}

static enum left look_at(struct object *object, bool is_trusting)
{
	if (object->type == weak_type)
		return look_at_weak(object);
	if ((py.PyType_GetFlags(object->type) & IS_TYPE) && hides_finalizer(object))
		return LEFT_HIDDEN;
	return look_at_type(object->type, is_trusting);
}

enum left left_look(bool is_trusting)
{
	struct object *all = py.PyObject_CallFunctionObjArgs(get_objects, (void *)NULL);
	ssize_t n = all ? py.PyList_Size(all) : 0;
	bool is_seen = false;
	enum left result = LEFT_NOTHING;

	for (ssize_t i = 0; i < n && result < LEFT_HIDDEN; i++) {
		struct object *object = py.PyList_GetItem(all, i);
		enum left what = look_at(object, is_trusting);

		result = what > result ? what : result;
		is_seen = is_seen || object == witness;
	}
	py.PyErr_Clear();
	py.Py_DecRef(all);
	return is_seen ? result : LEFT_HIDDEN;
}
