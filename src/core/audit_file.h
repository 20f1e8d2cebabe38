/* For audit.c: the files of the audit log. Lines are appended to one of them; it is renamed to
 * <name>.<time> when it is full or a day old, and then a new one is begun. A death between
 * the two leaves no file, which is made at the next start. */
#pragma once
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct audit_file {
	int dir_fd;
	int fd;     /* -1 while it could not be opened */
	char *name; /* in its directory */
	uint64_t max_bytes;
	uint64_t size;
	uint64_t begun_ns; /* when its first line was written; 0: it is empty */
	DIR *scan;         /* where the last sweep stopped; NULL: at the end */
};

int audit_file_open(struct audit_file *f, const char *path, uint64_t max_bytes, struct err *err);
void audit_file_fini(struct audit_file *f);

/* Append `size` bytes, which end with a newline, as a whole or not at all; rotate before that when
 * it would be too large afterwards. */
int audit_file_append(
	struct audit_file *f, const char *line, size_t size, uint64_t now_ns, struct err *err);

/* Rotate what was begun before this. */
int audit_file_rotate_older(
	struct audit_file *f, uint64_t begun_before_ns, uint64_t now_ns, struct err *err);

/* Remove what was rotated before this; how many. */
unsigned audit_file_sweep(struct audit_file *f, uint64_t rotated_before_ns);
