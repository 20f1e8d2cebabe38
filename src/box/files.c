#include "box/files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ipc/pack_write.h"
#include "ipc/spec.h"
#include "ipc/unpack.h"

#define WORKSPACE "/workspace"

static int pump_in(int fd, struct pack_reader *reader, struct err *err)
{
	uint8_t chunk[32 << 10];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "read files");
		if (n == 0)
			return pack_end(reader, err);
		int r = pack_feed(reader, chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
}

int files_take_in(const struct spec *spec, int fd, struct err *err)
{
	static struct pack_reader reader; /* too large for a comfortable stack */
	static struct unpack sink;
	AUTO_FD dir = open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "open the workspace");
	unpack_init(&sink, dir, spec->limits.workspace_bytes);
	pack_reader_init(&reader, &sink.sink);
	int r = pump_in(fd, &reader, err);
	unpack_fini(&sink);
	return r;
}

int files_send_out(const struct spec *spec, int fd, uint64_t *ret_bytes, struct err *err)
{
	struct pack_writer w = {
		.fd = fd,
		.max_bytes = spec->limits.capture_bytes,
		.files_only = true,
		.globs = spec->globs,
	};
	AUTO_FD dir = open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "open the workspace");
	int r = pack_write_tree(&w, "", dir, err);
	if (r == 0)
		r = pack_write_end(&w, err);
	*ret_bytes = w.n_bytes;
	return r;
}
