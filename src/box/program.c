#include "box/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/box.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

/* Nothing of ours has the copy mapped for writing, so that the seal against future writers
 * is as good as F_SEAL_WRITE, which the kernel refuses (EBUSY) for as long as anybody, be it
 * its own memory management, has a hold of one of the pages. */
#define SEALS     (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define ARGS_MAX  256u
#define ARGS_SIZE (128u << 10)
#define TITLE     "belljar box"

/* Does /proc/self/exe lead to something the guest may change? */
static bool is_exposed(int exe_fd)
{
	struct stat st;
	int seals = fcntl(exe_fd, F_GET_SEALS); /* -1 for what is no file in memory */

	if (seals >= 0 && (seals & SEALS) == SEALS)
		return false;
	/* The host's root gives its boxes users that own no file. */
	return fstat(exe_fd, &st) < 0 || (st.st_uid == geteuid() && !box_is_privileged());
}

static int make_file(int *ret, struct err *err)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;

	/* Where vm.memfd_noexec is set, it has to be said; older kernels do not know the word. */
	*ret = memfd_create("belljar", flags | MFD_EXEC);
	if (*ret < 0 && errno == EINVAL)
		*ret = memfd_create("belljar", flags);
	return *ret < 0 ? err_errno(err, "make a file in memory") : 0;
}

static int copy_file(int from, int to, struct err *err)
{
	for (;;) {
		ssize_t n = sendfile(to, from, NULL, 1 << 30);

		if (n < 0)
			return err_errno(err, "copy our own program");
		if (n == 0)
			return 0;
	}
}

/* Returns only on failure. */
static int seal_and_execute(int fd, char **argv, struct err *err)
{
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return err_errno(err, "seal a program in memory");
	(void)fexecve(fd, argv, environ);
	return err_errno(err, "execute a program in memory (vm.memfd_noexec?)");
}

int program_execute(const void *bytes, size_t size, char **argv, struct err *err)
{
	AUTO_FD fd = -1;
	int r = make_file(&fd, err);

	if (r < 0)
		return r;
	r = fd_write_full(fd, bytes, size);
	if (r < 0)
		return err_set(err, r, "write a program into memory");
	return seal_and_execute(fd, argv, err);
}

/* Our arguments as the kernel has them, since options may have been taken off by now. */
static int read_arguments(char *text, char **argv, struct err *err)
{
	AUTO_FD fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (fd < 0)
		return err_errno(err, "open /proc/self/cmdline");
	ssize_t size = fd_read_full(fd, text, ARGS_SIZE);
	if (size < 0)
		return err_set(err, (int)size, "read /proc/self/cmdline");
	if (size == 0 || (size_t)size == ARGS_SIZE || text[size - 1])
		return err_set(err, -E2BIG, "the command line is empty or too long");
	for (char *p = text; p < text + size; p += strlen(p) + 1) {
		if (n == ARGS_MAX)
			return err_set(err, -E2BIG, "more than %u arguments", ARGS_MAX);
		argv[n++] = p;
	}
	argv[n] = NULL;
	return 0;
}

int program_seal(struct err *err)
{
	char *argv[ARGS_MAX + 1];
	AUTO_FREE char *text = xcalloc(1, ARGS_SIZE);
	AUTO_FD exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	AUTO_FD copy = -1;

	if (exe < 0)
		return err_errno(err, "open /proc/self/exe");
	if (!is_exposed(exe))
		return 0;
	int r = read_arguments(text, argv, err);
	if (r == 0)
		r = make_file(&copy, err);
	if (r == 0)
		r = copy_file(exe, copy, err);
	return r < 0 ? r : seal_and_execute(copy, argv, err);
}

/* Fields 48 to 51 of the line: where arguments and environment begin and end. The name
 * before them is in parentheses, and may hold anything, parentheses included. */
static int find_arguments(uintptr_t ret[4])
{
	char line[1024];
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/self/stat", line, sizeof(line));
	char *rest = n < 0 ? NULL : strrchr(line, ')');
	unsigned long v[4] = { 0 };

	if (!rest)
		return n < 0 ? (int)n : -EPROTO;
	for (int field = 2; field < 48 && rest; field++)
		rest = strchr(rest + 1, ' ');
	for (int i = 0; i < 4 && rest; i++) {
		char *end;

		v[i] = strtoul(rest, &end, 10);
		rest = end > rest && v[i] != ULONG_MAX ? end : NULL;
	}
	if (!rest)
		return -EPROTO;
	if (v[0] == 0 || v[1] < v[0] || v[2] == 0 || v[3] < v[2])
		return -EPROTO;
	for (int i = 0; i < 4; i++)
		ret[i] = v[i];
	return 0;
}

int program_forget_arguments(struct err *err)
{
	static bool is_done; /* by us, or by who forked us */
	uintptr_t at[4];

	if (is_done)
		return 0;
	int r = find_arguments(at);
	if (r < 0)
		return err_set(err, r, "find our own arguments");
	memset((void *)at[2], 0, at[3] - at[2]);
	memset((void *)at[0], 0, at[1] - at[0]);
	if (at[1] - at[0] > strlen(TITLE))
		memcpy((void *)at[0], TITLE, strlen(TITLE));
	is_done = true;
	return 0;
}
