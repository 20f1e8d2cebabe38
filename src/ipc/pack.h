/* A stream of files, into a box and out of it: for each entry a head, its name,
 * and its bytes; then an end mark with the number of entries, so that a stream
 * cut short is noticed. Both sides distrust what they read. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define PACK_NAME_MAX    4095u
#define PACK_DEPTH_MAX   64u
#define PACK_ENTRIES_MAX 100000u
#define PACK_HEAD_SIZE   17u

enum pack_kind {
	PACK_FILE = 'F',
	PACK_DIR = 'D',
	PACK_LINK = 'L', /* symbolic; the data is its target */
	PACK_TWIN = 'H', /* a hard link; the data is the name of a file that came before */
	PACK_TIME = 'T', /* of what came under this name before: size is when it was changed, in
			    seconds since 1970, and mode the nanoseconds; no entry of its own */
	PACK_SKIP = 'S', /* a file that passed a limit and was left out */
	PACK_END = 'E',  /* size is the number of entries before it */
};

struct pack_entry {
	enum pack_kind kind;
	uint32_t mode; /* 0777 and below, but of a PACK_TIME */
	uint64_t size;
	char name[PACK_NAME_MAX + 1]; /* relative, clean; empty for PACK_END */
};

/* Encode head and name into `buf` of PACK_HEAD_SIZE + PACK_NAME_MAX bytes;
 * returns how many were used. */
size_t pack_encode(const struct pack_entry *e, uint8_t *buf);

/* True when the bytes of an entry follow its name. */
bool pack_has_data(enum pack_kind kind);

/* True when `name` is relative, not empty, without empty, "." or ".." parts, and
 * within the limits above. */
bool pack_name_is_clean(const char *name);

/* Where a decoded stream goes. Each returns 0 or a negative errno that ends it. */
struct pack_sink {
	int (*begin)(struct pack_sink *sink, const struct pack_entry *e, struct err *err);
	int (*data)(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err);
	int (*finish)(struct pack_sink *sink, struct err *err); /* this entry is whole */
};

/* A decoder that is fed as bytes come. */
struct pack_reader {
	struct pack_sink *sink;
	struct pack_entry entry;
	uint8_t head[PACK_HEAD_SIZE];
	size_t n_head;
	size_t n_name;
	size_t name_size;
	uint64_t left; /* data bytes of this entry still to come */
	uint64_t n_entries;
	uint64_t n_times; /* no more than entries */
	bool in_entry;
	bool ended;
	int failed; /* the first error, after which nothing is decoded any more */
};

void pack_reader_init(struct pack_reader *r, struct pack_sink *sink);

/* Decode some bytes. 0, or a negative errno: -EBADMSG when it is no good stream,
 * or what the sink returned. It is the same from then on. */
int pack_feed(struct pack_reader *r, const uint8_t *data, size_t size, struct err *err);

/* At the end of input: 0 when the stream was whole, else -EBADMSG. */
int pack_end(const struct pack_reader *r, struct err *err);

/* All of `fd`, which is a file, from its start into `sink`. 0 or a negative errno; what was whole
 * before an error was given to the sink. */
int pack_read_file(int fd, struct pack_sink *sink, struct err *err);
