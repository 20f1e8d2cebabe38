#include "warm/adopt.h"

#include <string.h>

#include "base/str.h"
#include "box/guest.h"
#include "ipc/spec.h"
#include "warm/cpython.h"

#define FLAG_BYTECODE 4 /* sys.flags.dont_write_bytecode */

static struct object *boot;
static struct object *flags;     /* sys.flags */
static struct object *variables; /* posix.environ, which is also what os.environ has */

void adopt_prepare(struct object *names)
{
	boot = names;
	flags = py.PySys_GetObject("flags");
	variables = py.PyDict_GetItemString(
		py.PyModule_GetDict(py.PyImport_AddModule("posix")), "environ");
}

static bool call(const char *name, struct object *first, struct object *second)
{
	struct object *done = py.PyObject_CallFunctionObjArgs(
		py.PyDict_GetItemString(boot, name), first, second, (void *)NULL);

	py.Py_DecRef(done);
	return done != NULL;
}

/* Of two variables with one name the first one counts. */
static void adopt_environment(char *const *env)
{
	for (size_t i = 0; env[i]; i++) {
		const char *sign = strchr(env[i], '=');

		if (!sign)
			continue; /* Python does not see it either */
		struct object *name = py.PyBytes_FromStringAndSize(env[i], sign - env[i]);
		struct object *value = py.PyBytes_FromString(sign + 1);

		(void)py.PyDict_SetDefault(variables, name, value);
		py.Py_DecRef(name);
		py.Py_DecRef(value);
	}
}

static void set_system(const char *name, struct object *value)
{
	(void)py.PySys_SetObject(name, value);
	py.Py_DecRef(value);
}

static void adopt_arguments(char *const *argv, const char *program)
{
	bool is_text = streq(argv[1], "-c");
	struct object *words = py.PyList_New(0);
	struct object *own = py.PyList_New(0);
	struct object *executable = py.PyUnicode_DecodeFSDefault(program);

	for (size_t i = 0; argv[i]; i++) {
		struct object *word = py.PyUnicode_DecodeFSDefault(argv[i]);

		(void)py.PyList_Append(words, word);
		if (i > 0 && !(is_text && i == 2))
			(void)py.PyList_Append(own, word);
		py.Py_DecRef(word);
	}
	set_system("orig_argv", words);
	set_system("argv", own);
	(void)py.PySys_SetObject("_base_executable", executable);
	set_system("executable", executable);
	if (is_text) {
		struct object *here = py.PyUnicode_FromString("");

		(void)py.PyList_Insert(py.PySys_GetObject("path"), 0, here);
		py.Py_DecRef(here);
	}
}

static bool adopt_file(const char *path, const char *file)
{
	struct object *given = py.PyUnicode_DecodeFSDefault(path);
	struct object *absolute = py.PyUnicode_DecodeFSDefault(file);
	bool done = call("adopt_file", given, absolute);

	py.Py_DecRef(given);
	py.Py_DecRef(absolute);
	return done;
}

static bool has_variable(const struct spec *spec, const char *name)
{
	const char *value = guest_find_variable(spec, name);

	return value && *value;
}

bool adopt_spec(const struct spec *spec, const char *program, const char *file)
{
	adopt_environment(spec->env);
	adopt_arguments(spec->argv, program);
	if (has_variable(spec, "PYTHONDONTWRITEBYTECODE")) {
		py.PyStructSequence_SetItem(flags, FLAG_BYTECODE, py.PyLong_FromLong(1));
		set_system("dont_write_bytecode", py.PyBool_FromLong(1));
	}
	return (!file[0] || adopt_file(spec->argv[1], file)) &&
	       (!has_variable(spec, "PYTHONUNBUFFERED") || call("unbuffer", NULL, NULL)) &&
	       call("renew", NULL, NULL);
}
