/* Put before each file by tools/check: tells clang's analyzer what it can not see
 * from one file, that these return the negative errno they record. Without it every
 * `return err_set(...)` looks as if it might be a success with no output. */
#pragma once
#include "base/err.h"

#define err_set(err, code, ...)   ((void)(err_set)((err), (code), __VA_ARGS__), (code))
#define err_wrap(err, code, what) ((void)(err_wrap)((err), (code), (what)), (code))
#define err_errno(err, ...)       ((void)(err_errno)((err), __VA_ARGS__), -1)
