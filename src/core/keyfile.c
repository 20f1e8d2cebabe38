#include "core/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#define PREFIX      "bj_"
#define RANDOM_SIZE 32u
#define SECRET_MIN  8u
#define SECRET_MAX  4096u

/* 32 bytes are ten groups of three and two more: 43 characters, without padding. */
static void encode(const unsigned char *bytes, size_t size, char *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned bits = 0;
	unsigned n_bits = 0;

	for (size_t i = 0; i < size; i++) {
		bits = bits << 8 | bytes[i];
		for (n_bits += 8; n_bits >= 6;) {
			n_bits -= 6;
			*out++ = digits[bits >> n_bits & 63];
		}
	}
	if (n_bits)
		*out++ = digits[bits << (6 - n_bits) & 63];
	*out = '\0';
}

void keyfile_make_key(char ret[KEYFILE_KEY_SIZE + 1])
{
	unsigned char bytes[RANDOM_SIZE];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort(); /* the kernel gives that few bytes whole or not at all */
	memcpy(ret, PREFIX, strlen(PREFIX));
	encode(bytes, sizeof(bytes), ret + strlen(PREFIX));
	explicit_bzero(bytes, sizeof(bytes));
}

void keyfile_wipe(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

static int check_file(int fd, const char *name, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "stat %s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a file", name);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EPERM, "%s belongs to uid %u", name, (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return err_set(
			err, -EPERM, "%s is open to others than its owner, chmod 600 it", name);
	return 0;
}

static int read_secret(int dir_fd, const char *name, char **ret, struct err *err)
{
	size_t size = 0;
	char *text = NULL;
	AUTO_FD fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_errno(err, "open %s", name);
	int r = check_file(fd, name, err);
	if (r < 0)
		return r;
	r = fd_read_all(fd, SECRET_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "read %s: %s", name, strerror(-r));
	while (size > 0 && strchr("\r\n", text[size - 1]))
		text[--size] = '\0';
	if (size < SECRET_MIN || strlen(text) != size || strpbrk(text, " \t\r\n")) {
		explicit_bzero(text, size);
		free(text);
		return err_set(err, -EINVAL,
			"%s does not hold one word of at least %u characters; remove it to have it "
			"made anew",
			name, SECRET_MIN);
	}
	*ret = text;
	return 0;
}

static int write_key(int fd)
{
	char line[KEYFILE_KEY_SIZE + 2];

	keyfile_make_key(line);
	line[KEYFILE_KEY_SIZE] = '\n';
	int r = fd_write_full(fd, line, KEYFILE_KEY_SIZE + 1);
	explicit_bzero(line, sizeof(line));
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

/* Written under another name and linked when whole: nobody ever reads half a key, and who
 * comes second finds the first one's. */
static int make_secret(int dir_fd, const char *name, struct err *err)
{
	char fresh[64];

	(void)snprintf(fresh, sizeof(fresh), ".%s.%d", name, (int)getpid());
	(void)unlinkat(dir_fd, fresh, 0); /* of a process of this number that was killed here */
	AUTO_FD fd = openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "make %s", name);
	int r = write_key(fd);
	if (r == 0 && linkat(dir_fd, fresh, dir_fd, name, 0) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlinkat(dir_fd, fresh, 0);
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "make %s: %s", name, strerror(-r)) : 0;
}

int keyfile_load(const char *dir, const char *name, char **ret, struct err *err)
{
	int r = path_make_dirs(dir, 0755, err);

	if (r < 0)
		return r;
	AUTO_FD dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open %.128s", dir);
	r = read_secret(dir_fd, name, ret, err);
	if (r != -ENOENT)
		return r < 0 ? err_wrap(err, r, dir) : 0;
	r = make_secret(dir_fd, name, err);
	if (r == 0)
		r = read_secret(dir_fd, name, ret, err);
	return r < 0 ? err_wrap(err, r, dir) : 0;
}
