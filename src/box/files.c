#include "box/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/commit.h"
#include "ipc/pack_write.h"
#include "ipc/spec.h"
#include "ipc/twins.h"
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

/* Unpack all of the stream below `dir`. */
static int unpack_all(int dir, uint64_t max_bytes, int fd, struct err *err)
{
	static struct pack_reader reader; /* too large for a comfortable stack */
	static struct unpack sink;

	unpack_init(&sink, dir, max_bytes);
	sink.whole = true;
	pack_reader_init(&reader, &sink.sink);
	int r = pump_in(fd, &reader, err);
	unpack_fini(&sink);
	return r;
}

/* Of errands there is one at a time in a workspace, so that each finds what the one before it left
 * when it was killed; runs come beside them. */
static const char *digits_for(const struct spec *spec)
{
	if (spec->change[0])
		return spec->change;
	return spec->deed == DEED_EXECUTE ? spec->id : spec->workspace;
}

static int take_in_as_one(const struct spec *spec, int dir, int fd, struct err *err)
{
	AUTO_FD fresh = -1;
	char name[COMMIT_NAME_SIZE];
	int r = commit_begin(dir, digits_for(spec), name, &fresh, err);

	if (r < 0)
		return r;
	r = unpack_all(fresh, spec->limits.workspace_bytes, fd, err);
	if (r < 0) {
		commit_abort(dir, name);
		return r;
	}
	return commit_end(dir, name, spec->clears, spec->limits.workspace_bytes, err);
}

static int open_workspace(struct err *err)
{
	int dir = open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 ? err_errno(err, "open the workspace") : dir;
}

/* The same to change what is in it. A guest may have shut a session's, and nothing in there would
 * ever be changed again; nobody keeps one like that on purpose, so it stays open. */
static int open_to_change(const struct spec *spec, struct err *err)
{
	struct stat st;

	if (!spec->workspace[0])
		return open_workspace(err);
	if (stat(WORKSPACE, &st) < 0)
		return err_errno(err, "look at the workspace");
	if ((st.st_mode & S_IRWXU) == S_IRWXU)
		return open_workspace(err);
	AUTO_FD opened = fd_unshut(AT_FDCWD, WORKSPACE, 0);
	return opened < 0 ? err_errno(err, "open the workspace up") : open_workspace(err);
}

int files_make_good(const struct spec *spec, struct err *err)
{
	struct err why = { 0 };

	if (!spec->change[0])
		return 0;
	AUTO_FD dir = open_to_change(spec, &why);
	if (dir >= 0 && commit_recover(dir, spec->change, &why) == 0)
		return 0;
	return err_set(err, -ENOTRECOVERABLE,
		"a restore left some of the files aside, and they can not be put back: %.200s",
		why.text);
}

int files_take_in(const struct spec *spec, int fd, struct err *err)
{
	AUTO_FD dir = open_to_change(spec, err);

	if (dir < 0)
		return dir;
	/* Nobody else sees a workspace of the run's own, and a run that could not get its
	 * files does not happen. */
	if (!spec->workspace[0])
		return unpack_all(dir, spec->limits.workspace_bytes, fd, err);
	return take_in_as_one(spec, dir, fd, err);
}

/* One file and no other. What is not there, no file, or closed to the guest itself is not in
 * the stream; which of these it was is nobody's business who asks for a file. */
static int send_one(struct pack_writer *w, const char *path, int dir, struct err *err)
{
	struct stat st;
	AUTO_FD fd = beneath_open(dir, path);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return pack_write_file(w, path, fd, err);
}

int files_send_out(const struct spec *spec, int fd, uint64_t *ret_bytes, struct err *err)
{
	CLEANUP(twins_fini) struct twins twins = { 0 };
	bool is_whole = spec->deed == DEED_FILES;
	struct pack_writer w = {
		.fd = fd,
		.max_bytes = spec->limits.capture_bytes,
		.files_only = spec->deed == DEED_EXECUTE,
		.globs = is_whole ? NULL : spec->globs,
		.twins = is_whole ? &twins : NULL,
		.is_hidden = commit_is_name,
	};
	AUTO_FD dir = open_workspace(err);

	if (dir < 0)
		return dir;
	int r = spec->deed == DEED_FETCH ? send_one(&w, spec->globs[0], dir, err)
					 : pack_write_tree(&w, "", dir, err);
	if (r == 0)
		r = pack_write_end(&w, err);
	*ret_bytes = w.n_bytes;
	return r;
}
