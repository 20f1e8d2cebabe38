/* What one import may use at most. One budget is shared by all layers, so that a
 * hundred layers get no more than one. */
#pragma once
#include <stdint.h>

struct err;

#define BUDGET_BYTES_DEFAULT (UINT64_C(8) << 30)
#define BUDGET_ENTRIES_MAX   UINT64_C(1000000)
#define BUDGET_FREE_MIN      (UINT64_C(64) << 20) /* stays free on the disk, for others */
#define BUDGET_INODES_MIN    1024u

struct budget {
	uint64_t bytes_max; /* for each of the three counters below */
	uint64_t content;   /* file sizes, holes included */
	uint64_t stream;    /* uncompressed tar */
	uint64_t raw;       /* as read from the source */
	uint64_t entries;
	uint64_t since_check; /* bytes taken since the disk was asked */
	int disk_fd;          /* anything on the disk that is written to; borrowed */
};

void budget_init(struct budget *b, uint64_t bytes_max, int disk_fd);

/* Each takes its share or returns -EFBIG (-ENOSPC for the disk) with a sentence. */
int budget_take_content(struct budget *b, uint64_t bytes, struct err *err);
int budget_take_stream(struct budget *b, uint64_t bytes, struct err *err);
int budget_take_raw(struct budget *b, uint64_t bytes, struct err *err);
int budget_take_entry(struct budget *b, struct err *err);
