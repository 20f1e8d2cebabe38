/* Entries of a pack stream whose bytes come in pieces, or that are directories: what
 * ipc/pack_write.h has no call for. Counts go to the same struct pack_writer, so that both can
 * write one stream. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;
struct pack_writer;

/* A directory. */
int sender_dir(struct pack_writer *w, const char *name, uint32_t mode, struct err *err);

/* A file of `size` bytes, which must follow by sender_data(). */
int sender_file(
	struct pack_writer *w, const char *name, uint32_t mode, uint64_t size, struct err *err);
int sender_data(struct pack_writer *w, const void *data, size_t size, struct err *err);

/* `size` bytes of `fd` from `offset`, as such a file. -EIO when there are fewer. */
int sender_range(struct pack_writer *w, int fd, uint64_t offset, uint64_t size, struct err *err);
