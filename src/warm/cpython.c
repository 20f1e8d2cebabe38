#include "warm/cpython.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

struct cpython py;

static const struct {
	const char *name;
	void *at;
} symbols[] = {
#define ROW(name, returns, takes) { #name, &py.name },
	CPYTHON_FUNCTIONS(ROW){ "PyExc_SystemExit", &py.PyExc_SystemExit },
	{ "PyExc_KeyboardInterrupt", &py.PyExc_KeyboardInterrupt },
	{ "_Py_NoneStruct", &py._Py_NoneStruct },
};

int cpython_find(struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *found = dlsym(RTLD_DEFAULT, symbols[i].name);

		if (!found)
			return err_set(err, -ENOSYS, "this interpreter has no %s", symbols[i].name);
		memcpy(symbols[i].at, &found, sizeof(found));
	}
	return 0;
}

struct object *cpython_bind(struct object *names, const char *module, const char *name)
{
	return py.PyObject_GetAttrString(py.PyDict_GetItemString(names, module), name);
}
