/* Functions of CPython that a template calls, looked up by name in the interpreter that this
 * process is: there are no headers of it, and only what keeps its shape from version to version
 * is used. Their names are Python's own, and its manual is theirs. */
#pragma once
#include <stdio.h>
#include <sys/types.h>

struct err;

/* How each object begins, by Python's stable interface; the rest is opaque to us. */
struct object {
	ssize_t n_references; /* not for us to count */
	struct object *type;
};

/* What Python returns by value where it may fail. */
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

struct method_definition {
	const char *name;
	struct object *(*call)(struct object *, struct object *);
	int flags;
	const char *doc;
};

/* Name, what it returns, what it takes. */
#define CPYTHON_FUNCTIONS(F)                                                                       \
	F(PyConfig_InitPythonConfig, void, (void *))                                               \
	F(PyConfig_SetBytesArgv, struct status, (void *, ssize_t, char *const *))                  \
	F(PyConfig_Clear, void, (void *))                                                          \
	F(Py_InitializeFromConfig, struct status, (const void *))                                  \
	F(PyStatus_Exception, int, (struct status))                                                \
	F(PyDict_New, struct object *, (void))                                                     \
	F(PyDict_GetItemString, struct object *, (struct object *, const char *))                  \
	F(PyDict_DelItemString, int, (struct object *, const char *))                              \
	F(PyDict_SetItemString, int, (struct object *, const char *, struct object *))             \
	F(PyDict_Size, ssize_t, (struct object *))                                                 \
	F(PyDict_Clear, void, (struct object *))                                                   \
	F(PyTuple_GetItem, struct object *, (struct object *, ssize_t))                            \
	F(PyImport_GetMagicNumber, long, (void))                                                   \
	F(PyImport_AddModule, struct object *, (const char *))                                     \
	F(PyModule_GetDict, struct object *, (struct object *))                                    \
	F(PyModule_New, struct object *, (const char *))                                           \
	F(PyImport_GetModuleDict, struct object *, (void))                                         \
	F(PyCapsule_New, struct object *, (void *, const char *, void (*)(struct object *)))       \
	F(PyCFunction_NewEx, struct object *,                                                      \
		(struct method_definition *, struct object *, struct object *))                    \
	F(PyWeakref_NewRef, struct object *, (struct object *, struct object *))                   \
	F(PyType_GetFlags, unsigned long, (struct object *))                                       \
	F(PyType_GetSlot, void *, (struct object *, int))                                          \
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
	F(PyBytes_FromStringAndSize, struct object *, (const char *, ssize_t))                     \
	F(PyObject_GC_Track, void, (void *))                                                       \
	F(PyObject_GC_UnTrack, void, (void *))                                                     \
	F(PyObject_Malloc, void *, (size_t))                                                       \
	F(PyBool_FromLong, struct object *, (long))                                                \
	F(PyDict_SetDefault, struct object *, (struct object *, struct object *, struct object *)) \
	F(PyList_Insert, int, (struct object *, ssize_t, struct object *))                         \
	F(PySys_SetObject, int, (const char *, struct object *))                                   \
	F(PyUnicode_DecodeFSDefault, struct object *, (const char *))                              \
	F(PyUnicode_FromString, struct object *, (const char *))                                   \
	F(PyUnicode_InternFromString, struct object *, (const char *))                             \
	F(PyUnicode_AsUTF8, const char *, (struct object *))                                       \
	F(PyUnicode_DecodeUTF8, struct object *, (const char *, ssize_t, const char *))            \
	F(PyObject_CallFunctionObjArgs, struct object *, (struct object *, ...))                   \
	F(PyObject_GetAttr, struct object *, (struct object *, struct object *))                   \
	F(PyObject_GetAttrString, struct object *, (struct object *, const char *))                \
	F(PyObject_IsTrue, int, (struct object *))                                                 \
	F(PyObject_Print, int, (struct object *, FILE *, int))                                     \
	F(PyFile_WriteObject, int, (struct object *, struct object *, int))                        \
	F(PyLong_AsLong, long, (struct object *))                                                  \
	F(PyLong_FromLong, struct object *, (long))                                                \
	F(PyStructSequence_SetItem, void, (struct object *, ssize_t, struct object *))             \
	F(PySys_GetObject, struct object *, (const char *))                                        \
	F(PySys_WriteStderr, void, (const char *, ...))                                            \
	F(PySys_Audit, int, (const char *, const char *, ...))                                     \
	F(PyErr_Print, void, (void))                                                               \
	F(PyErr_Occurred, struct object *, (void))                                                 \
	F(PyErr_NoMemory, struct object *, (void))                                                 \
	F(PyErr_Clear, void, (void))                                                               \
	F(PyErr_ExceptionMatches, int, (struct object *))                                          \
	F(PyErr_Fetch, void, (struct object **, struct object **, struct object **))               \
	F(PyErr_Restore, void, (struct object *, struct object *, struct object *))                \
	F(Py_IncRef, void, (struct object *))                                                      \
	F(Py_DecRef, void, (struct object *))                                                      \
	F(Py_MakePendingCalls, int, (void))                                                        \
	F(PyOS_BeforeFork, void, (void))                                                           \
	F(PyOS_AfterFork_Parent, void, (void))                                                     \
	F(PyOS_AfterFork_Child, void, (void))                                                      \
	F(Py_IsInitialized, int, (void))                                                           \
	F(Py_FinalizeEx, int, (void))

#define DECLARE_FUNCTION(name, returns, takes) returns(*name) takes;
struct cpython {
	CPYTHON_FUNCTIONS(DECLARE_FUNCTION)
	struct object **PyExc_SystemExit;
	struct object **PyExc_KeyboardInterrupt;
	struct object *_Py_NoneStruct; /* None itself */
};

/* Filled by cpython_find(). */
extern struct cpython py;

/* -ENOSYS if one of them is missing. */
int cpython_find(struct err *err);

/* What a module has by this name, with a reference of the caller's; the module is one of `names`.
 * To be asked in a template: a guest may put something else there. */
struct object *cpython_bind(struct object *names, const char *module, const char *name);
