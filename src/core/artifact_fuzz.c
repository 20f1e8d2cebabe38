/* Input: the spool of a capture. Whatever it is, unpacking succeeds, stays within the limits,
 * does the same again, and everything it lists can be opened and is what it says. */
#include "core/artifact.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "lib/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct artifact_limits limits = { 4000, 3000, 1000 };

static void check_row(int dir_fd, const json_t *row)
{
	struct artifact a = { .fd = -1 };
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	char hex[DIGEST_HEX_SIZE + 1];

	if (artifact_open(dir_fd, json_string_value(json_object_get(row, "path")), &a, NULL) < 0)
		abort();
	if (fd_read_all(a.fd, limits.max_file_bytes, &text, &size) < 0 || size != a.size)
		abort();
	digest_of(text, size, hex);
	if (strcmp(hex, a.sha256) != 0)
		abort();
	(void)close(a.fd);
}

static void check_list(int dir_fd, const struct artifact_summary *sum)
{
	json_t *list = NULL;
	const json_t *row;
	size_t i;

	if (artifact_list(dir_fd, &list, NULL) < 0 || json_array_size(list) != sum->n_files)
		abort();
	json_array_foreach(list, i, row) check_row(dir_fd, row);
	json_decref(list);
}

static bool is_same(const struct artifact_summary *a, const struct artifact_summary *b)
{
	return a->n_files == b->n_files && a->n_bytes == b->n_bytes &&
	       a->n_skipped == b->n_skipped && a->cut_short == b->cut_short;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 }, again = { 0 };
	AUTO_FD fd = openat(dir.fd, "capture", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || fd_write_full(fd, data, size) < 0)
		abort();
	if (artifact_unpack(dir.fd, &limits, &sum, NULL) < 0 || sum.n_bytes > 3000)
		abort();
	if (artifact_unpack(dir.fd, &limits, &again, NULL) < 0 || !is_same(&sum, &again))
		abort();
	check_list(dir.fd, &sum);
	return 0;
}
