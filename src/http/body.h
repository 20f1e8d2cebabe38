/* The body of a request while it comes: dropped, held in memory, or spooled to a file that has
 * no name and is gone with its descriptor. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "http/http.h"

struct body {
	enum body_mode mode;
	uint64_t max;
	uint64_t size;
	char *data; /* always with a NUL behind it */
	size_t room;
	int fd;
};

/* A body of at most `max` bytes. With BODY_FILE a file is made in `dir`, once there is
 * something to put in it; an empty body has an empty file too. */
void body_init(struct body *b, enum body_mode mode, uint64_t max);
void body_fini(struct body *b);

/* A file in `dir` that has no name: its descriptor or a negative errno. */
int body_open_file(const char *dir);

/* Its bytes were read, and are not needed again: let go of those that are held in memory. */
void body_drop(struct body *b);

/* Make what an empty body has: 0 or a negative errno. */
int body_open(struct body *b, const char *dir, struct err *err);

/* Add bytes: 0, -EFBIG for more than `max`, -ENOMEM, or what write() said. */
int body_add(struct body *b, const char *data, size_t size);
