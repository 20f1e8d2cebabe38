/* Where an image comes from: a directory, or an archive that is unpacked into one
 * first, so that everything behind it reads files by name. */
#pragma once
#include <stdint.h>

struct err;

/* Open `path`: a directory, a tar archive (plain, gzip, zstd), or "-" for one on
 * stdin. An archive is unpacked to the new directory "source" below `work_fd`, and
 * may have `bytes_max` bytes. */
int source_open(const char *path, int work_fd, uint64_t bytes_max, int *ret_fd, struct err *err);
