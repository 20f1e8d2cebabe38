/* A file that bytes are added to and never changed in: stdout, stderr or the events of one
 * run. Part of struct stream. The file is opened when it is first needed, so that a stream
 * which is only read, or a guest that says nothing, holds few descriptors. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct spool {
	const char *name;
	int dir_fd; /* borrowed */
	bool is_writable;
	int fd;           /* -1 until it is needed */
	uint64_t start;   /* the first byte that is kept */
	uint64_t indexed; /* before it, all is in frames */
	uint64_t size;
};

/* Learn the size of the file; one that is absent is empty. 0 or a negative errno. */
int spool_init(struct spool *p, const char *name, int dir_fd, bool is_writable);
/* The same with a file that is open, and taken; -1 for one that is absent. */
int spool_adopt(struct spool *p, const char *name, int dir_fd, bool is_writable, int fd);
/* ... to be written from its beginning, whatever is in there. */
void spool_begin(struct spool *p, const char *name, int dir_fd, int fd);
void spool_fini(struct spool *p);

/* Move at most `max` bytes from `fd`, which does not block, to the end of the file: by
 * splice(), so that at any instant a byte is either in the pipe or in the file, or by read
 * and write if it is no pipe. Returns how many, 0 at the end of the input, -EAGAIN when
 * there is none now, or why the file can not be written. */
ssize_t spool_take(struct spool *p, int fd, size_t max);

/* The same into nowhere; `*null_fd` is /dev/null, opened when it is -1. */
ssize_t spool_drop(int *null_fd, int fd, size_t max);
/* The same into memory. */
ssize_t spool_read_pipe(int fd, void *buf, size_t size);

/* Add `size` bytes. On failure the file is as before. */
int spool_append(struct spool *p, const void *data, size_t size);

/* Read exactly `size` bytes; -EIO when the file does not have them. */
int spool_read(struct spool *p, uint64_t offset, void *buf, size_t size);

/* Forget what is behind `size`. */
int spool_cut(struct spool *p, uint64_t size);
