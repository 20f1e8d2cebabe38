/* Looking at what artifact_unpack.c has made. */
#include "core/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "core/artifact_private.h"
#include "ipc/pack.h"

/* How many times a path may be encoded; one that is encoded more often is refused. */
#define ENCODED_MAX 4

static int hex_value(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

	return p ? (int)(p - digits) : -1;
}

/* Undo one layer of percent-encoding in place. True when there was any. */
static bool decode(char *text)
{
	char *out = text;
	bool changed = false;

	for (const char *p = text; *p; p++) {
		int high = *p == '%' ? hex_value(p[1]) : -1;
		int low = high >= 0 ? hex_value(p[2]) : -1;

		if (low < 0) {
			*out++ = *p;
			continue;
		}
		/* A NUL would end the text; it is refused as a control character. */
		*out++ = high || low ? (char)(high * 16 + low) : '\1';
		p += 2;
		changed = true;
	}
	*out = '\0';
	return changed;
}

static bool has_control(const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return true;
	return false;
}

static bool is_safe_as_it_is(const char *path)
{
	return pack_name_is_clean(path) && !strstr(path, "..") && !strchr(path, '\\') &&
	       !has_control(path);
}

bool artifact_path_is_safe(const char *path)
{
	char text[PACK_NAME_MAX + 1];

	if (strlen(path) > PACK_NAME_MAX)
		return false;
	(void)snprintf(text, sizeof(text), "%s", path);
	for (int i = 0; i <= ENCODED_MAX; i++) {
		if (!is_safe_as_it_is(text))
			return false;
		if (!decode(text))
			return true;
	}
	return false;
}

int artifact_load(int run_dir_fd, json_t **ret, struct err *err)
{
	AUTO_FREE char *text = NULL;
	AUTO_JSON *json = NULL;
	size_t size = 0;
	AUTO_FD fd = openat(run_dir_fd, ARTIFACT_INDEX, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_errno(err, "open " ARTIFACT_INDEX);
	int r = fd_read_all(fd, ARTIFACT_INDEX_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "read " ARTIFACT_INDEX ": %s", strerror(-r));
	r = json_read(text, size, &json, err);
	if (r < 0)
		return err_wrap(err, r, ARTIFACT_INDEX);
	if (!json_is_array(json_object_get(json, "files")))
		return err_set(err, -EBADMSG, ARTIFACT_INDEX ": it lists no files");
	*ret = TAKE(json);
	return 0;
}

int artifact_list(int run_dir_fd, json_t **ret, struct err *err)
{
	AUTO_JSON *json = NULL;
	int r = artifact_load(run_dir_fd, &json, err);

	if (r < 0 && r != -ENOENT)
		return r;
	*ret = r == 0 ? json_incref(json_object_get(json, "files")) : json_array();
	return 0;
}

/* The list is sorted by path. */
static const json_t *find(const json_t *files, const char *path)
{
	size_t low = 0;
	size_t high = json_array_size(files);

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const json_t *file = json_array_get(files, middle);
		const char *here = json_string_value(json_object_get(file, "path"));
		int r = here ? strcmp(path, here) : -1;

		if (r == 0)
			return file;
		if (r < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int open_file(int run_dir_fd, const char *path)
{
	struct stat st;
	AUTO_FD dir =
		openat(run_dir_fd, ARTIFACT_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return -errno;
	AUTO_FD fd = beneath_open(dir, path);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	return take_fd(&fd);
}

static int not_found(struct err *err)
{
	return err_set(err, -ENOENT, "there is no such artifact");
}

int artifact_open(int run_dir_fd, const char *path, struct artifact *ret, struct err *err)
{
	AUTO_JSON *json = NULL;

	if (!artifact_path_is_safe(path))
		return err_set(err, -EINVAL, "not a path an artifact can have");
	int r = artifact_load(run_dir_fd, &json, err);
	const json_t *file = r < 0 ? NULL : find(json_object_get(json, "files"), path);
	if (r == -ENOENT || (r == 0 && !file))
		return not_found(err);
	if (r < 0)
		return r;
	const char *mime = json_string_value(json_object_get(file, "mime"));
	const char *sha256 = json_string_value(json_object_get(file, "sha256"));
	if (!mime || !sha256)
		return err_set(err, -EBADMSG, ARTIFACT_INDEX ": an entry is not whole");
	int fd = open_file(run_dir_fd, path);
	if (fd < 0)
		return fd == -ENOENT ? not_found(err)
				     : err_set(err, fd, "open the artifact: %s", strerror(-fd));
	ret->fd = fd;
	ret->size = (uint64_t)json_integer_value(json_object_get(file, "size"));
	(void)snprintf(ret->mime, sizeof(ret->mime), "%s", mime);
	(void)snprintf(ret->sha256, sizeof(ret->sha256), "%s", sha256);
	return 0;
}

void artifact_remove_all(int run_dir_fd)
{
	static const char *const names[] = { ARTIFACT_INDEX, ARTIFACT_CAPTURE, ARTIFACT_DIR };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)fd_remove_tree(run_dir_fd, names[i]);
}
