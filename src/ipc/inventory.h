/* What is in a workspace: names, sizes, times and digests, no content. A box makes it of its own
 * tree and sends it as one message, which whoever reads it does not trust. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "ipc/pack.h"

struct cur;
struct err;
struct put;

/* Whatever a guest makes, a listing has no more than this, and says that it was cut, and how many
 * files that left out. */
#define INVENTORY_ENTRIES_MAX 2000u
#define INVENTORY_BYTES_MAX   (256u << 10) /* of all paths together */

/* The longest message of one: what an entry has beside its path is less than 64 bytes. */
#define INVENTORY_SIZE_MAX (INVENTORY_BYTES_MAX + 64u * (INVENTORY_ENTRIES_MAX + 1))

/* What libraries keep for themselves, such as matplotlib its list of fonts. It is listed, but not
 * counted among the files that are left out: nobody made it on purpose. */
#define INVENTORY_CACHES ".cache/"

enum inventory_kind {
	INVENTORY_FILE = 'F',
	INVENTORY_DIR = 'D',
	INVENTORY_LINK = 'L',  /* symbolic, not followed */
	INVENTORY_OTHER = 'O', /* a fifo, a socket */
};

struct inventory_entry {
	enum inventory_kind kind;
	bool is_changed; /* since the run began; false when no run was asked about */
	uint64_t size;
	uint64_t mtime_ns; /* since 1970, as the guest left it */
	bool has_sha256;   /* of a file whose content was read */
	uint8_t sha256[SHA256_SIZE];
	char *path; /* relative to the workspace, clean as pack_name_is_clean() has it */
};

struct inventory {
	struct inventory_entry *at; /* sorted by path */
	size_t n;
	size_t room;
	size_t n_bytes;   /* of paths */
	bool is_cut;      /* there is more than is listed */
	bool is_partial;  /* ... and not all of that was looked at */
	uint32_t n_more;  /* files that were found and are not listed */
	size_t n_unnamed; /* left out by the reader: their names are no text that one can show */
};

/* Add a copy of `e`. 0, or -E2BIG when that passes a limit: then it is left out. */
int inventory_add(struct inventory *l, const struct inventory_entry *e);
bool inventory_has_room(const struct inventory *l, const char *path);
/* The listing is cut, and a file is counted. */
void inventory_leave_out(struct inventory *l, const struct inventory_entry *e);
/* Leave out the entry at `i`; the last one takes its place. */
void inventory_drop(struct inventory *l, size_t i);
/* There is something that nobody looks at. */
void inventory_set_partial(struct inventory *l);
void inventory_sort(struct inventory *l);
/* For qsort() of pointers to entries: what was changed comes first, and then what is newer. */
int inventory_compare_newest(const void *a, const void *b);
void inventory_fini(struct inventory *l);

void inventory_put(const struct inventory *l, struct put *p);

/* Read all of a message. 0, or -EBADMSG, and then there is nothing in `ret`. */
int inventory_get(struct inventory *ret, struct cur *c);
