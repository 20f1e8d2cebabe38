/* A failure with a sentence. The storage is the caller's and fixed, so that
 * failing never allocates; it is filled only when a call fails. */
#pragma once

struct err {
	int code;       /* negative errno */
	char text[256]; /* one clause: no capital, no newline, no full stop */
};

/* Record a failure in `err` (which may be NULL) and return `code`, so that
 * callers write `return err_set(err, -EINVAL, ...)`. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: takes the code from errno and appends its
 * description, "open /x: No such file or directory". */
int err_errno(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prefix what is already recorded: "mount /proc" -> "root: mount /proc". */
int err_wrap(struct err *err, int code, const char *what);
