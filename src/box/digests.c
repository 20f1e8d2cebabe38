#include "box/digests.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/str.h"
#include "ipc/inventory.h"

#define PIECE_SIZE (64u << 10)

struct budget {
	uint64_t bytes;
	uint64_t until_ns;
};

static bool is_spent(const struct budget *b)
{
	return clock_monotonic_ns() >= b->until_ns;
}

/* The size is what was listed: a file that grows meanwhile is not followed. */
static int read_file(int fd, uint64_t size, const struct budget *b, uint8_t ret[SHA256_SIZE])
{
	static uint8_t piece[PIECE_SIZE];
	struct sha256 s;

	sha256_init(&s);
	while (size > 0) {
		ssize_t n = read(fd, piece, size < sizeof(piece) ? size : sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		if (is_spent(b))
			return -ETIME;
		sha256_add(&s, piece, (size_t)n);
		size -= (uint64_t)n;
	}
	sha256_end(&s, ret);
	return 0;
}

static void fill_one(int dir_fd, struct inventory_entry *e, struct budget *b)
{
	AUTO_FD fd = -1;
	struct stat st;

	if (e->size > DIGESTS_FILE_MAX || e->size > b->bytes)
		return;
	fd = beneath_open(dir_fd, e->path);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size)
		return;
	b->bytes -= e->size;
	e->has_sha256 = read_file(fd, e->size, b, e->sha256) == 0;
}

void digests_fill(int dir_fd, struct inventory *l)
{
	AUTO_FREE struct inventory_entry **files = xcalloc(l->n + 1, sizeof(*files));
	struct budget b = { .bytes = DIGESTS_TOTAL_MAX };
	size_t n = 0;

	b.until_ns = clock_monotonic_ns() + DIGESTS_MS * UINT64_C(1000000);
	for (size_t i = 0; i < l->n; i++) {
		if (l->at[i].kind == INVENTORY_FILE && !str_after(l->at[i].path, INVENTORY_CACHES))
			files[n++] = &l->at[i];
	}
	qsort(files, n, sizeof(*files), inventory_compare_newest);
	for (size_t i = 0; i < n && !is_spent(&b); i++)
		fill_one(dir_fd, files[i], &b);
}
