/* For request.c and request_files.c. */
#pragma once
#include <stddef.h>

struct problem;

/* 422 invalid_inline_file that names its index; -1. */
int request_refuse_file(struct problem *problem, size_t i, const char *why);
