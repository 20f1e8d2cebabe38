/* Runs a fuzz target over the files named on the command line, so that every
 * input that ever mattered is tried in `make test` without libFuzzer. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define INPUT_MAX (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int dir_fd, const char *name)
{
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fd_read_all(fd, INPUT_MAX, &data, &size) < 0) {
		(void)fprintf(stderr, "cannot read %s\n", name);
		return -1;
	}
	(void)LLVMFuzzerTestOneInput((const uint8_t *)data, size);
	return 0;
}

int main(int argc, char **argv)
{
	int n_inputs = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		const struct dirent *entry;

		if (!dir) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		while ((entry = readdir(dir))) {
			if (entry->d_name[0] == '.')
				continue;
			if (replay_file(dirfd(dir), entry->d_name) < 0)
				return EXIT_FAILURE;
			n_inputs++;
		}
		(void)closedir(dir);
	}
	printf("%d inputs replayed\n", n_inputs);
	return n_inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
