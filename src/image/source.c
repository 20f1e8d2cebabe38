#include "image/source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "image/budget.h"
#include "image/layer.h"
#include "image/tree.h"

static int unpack(int fd, int work_fd, uint64_t bytes_max, int *ret_fd, struct err *err)
{
	struct budget budget;
	struct tree tree;

	if (mkdirat(work_fd, "source", 0700) < 0)
		return err_errno(err, "mkdir source");
	AUTO_FD dir_fd = openat(work_fd, "source", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open source");
	budget_init(&budget, bytes_max, dir_fd);
	tree_init(&tree, dir_fd);
	int r = layer_unpack_plain(&tree, fd, &budget, err);
	tree_fini(&tree);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&dir_fd);
	return 0;
}

int source_open(const char *path, int work_fd, uint64_t bytes_max, int *ret_fd, struct err *err)
{
	struct stat st;
	AUTO_FD fd = -1;

	if (streq(path, "-"))
		return unpack(STDIN_FILENO, work_fd, bytes_max, ret_fd, err);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "open");
	if (S_ISDIR(st.st_mode)) {
		*ret_fd = take_fd(&fd);
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "neither a directory nor a file");
	return unpack(fd, work_fd, bytes_max, ret_fd, err);
}
