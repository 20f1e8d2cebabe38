/* Input: a byte of flags, then a pack stream. It is written below one directory;
 * what lies beside that must stay as it is. */
#include "ipc/unpack.h"

#include <stdlib.h>

#include "base/err.h"
#include "lib/scratch.h"

#define BYTES_MAX (64u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct scratch outside = { .fd = -1 };

static void remove_outside(void)
{
	scratch_remove(&outside);
}

static void make_outside(void)
{
	if (outside.fd >= 0)
		return;
	scratch_make(&outside);
	scratch_write(outside.fd, "sentinel", "untouched");
	if (mkdirat(outside.fd, "beside", 0755) < 0 || atexit(remove_outside) != 0)
		abort();
}

static size_t count_entries(const char *name)
{
	AUTO_FD fd = openat(outside.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(take_fd(&fd));
	size_t n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void check_outside(void)
{
	if (!scratch_holds(outside.fd, "sentinel", "untouched") || count_entries(".") != 5 ||
		count_entries("beside") != 2)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pack_reader reader;
	static struct unpack unpack;
	struct err err = { 0 };

	if (size == 0)
		return 0;
	make_outside();
	if (mkdirat(outside.fd, "in", 0755) < 0)
		abort();
	int fd = openat(outside.fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unpack_init(&unpack, fd, BYTES_MAX);
	unpack.files_only = data[0] & 1;
	pack_reader_init(&reader, &unpack.sink);
	int r = pack_feed(&reader, data + 1, size - 1, &err);
	if ((r < 0 && !err.text[0]) || unpack.n_bytes > BYTES_MAX)
		abort();
	unpack_fini(&unpack);
	(void)close(fd);
	check_outside();
	if (fd_remove_tree(outside.fd, "in") < 0)
		abort();
	return 0;
}
