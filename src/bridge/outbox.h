/* Lines on their way to somebody who may be slow: to a pipe, a socket, a terminal or a file,
 * without ever blocking and without changing the descriptor's flags, which it shares with
 * others. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* All zero but for `fd`. */
struct outbox {
	int fd;
	char *data;
	size_t begin;
	size_t end;
	size_t room;
	bool is_file; /* no socket, so that write() is needed, which may block */
};

void outbox_fini(struct outbox *o);

/* Append one line. What separates lines inside of `text` becomes a blank: in JSON it can only
 * stand between words. */
void outbox_add(struct outbox *o, const char *text, size_t size);

/* Send what the other side takes now. 0, or a negative errno when it is gone. */
int outbox_flush(struct outbox *o);

/* How many bytes wait. */
static inline size_t outbox_size(const struct outbox *o)
{
	return o->end - o->begin;
}
