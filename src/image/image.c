#include "image/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/quote.h"
#include "base/str.h"
#include "image/document.h"

#define DIR_FLAGS  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define TAG_MAX    128u
#define HEX_MIN    4u /* digits that a beginning must have */
#define LOWER      "abcdefghijklmnopqrstuvwxyz0123456789"
#define WORD_CHARS LOWER "._-"
#define TAG_CHARS  WORD_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* A word of a repository: lower case, separators only between letters. */
static bool is_word(const char *text, size_t n)
{
	return n > 0 && strspn(text, WORD_CHARS) >= n && strchr(LOWER, text[0]) &&
	       strchr(LOWER, text[n - 1]);
}

/* The length of the first `n` characters without ":5000" at their end. */
static size_t without_port(const char *text, size_t n)
{
	size_t host = strcspn(text, ":/");
	size_t digits = host < n ? strspn(text + host + 1, "0123456789") : 0;

	return digits > 0 && host + 1 + digits == n ? host : n;
}

/* Words with slashes between; the first of several may be a host with a port. */
static bool is_repository(const char *text, size_t size)
{
	for (size_t at = 0;;) {
		const char *slash = memchr(text + at, '/', size - at);
		size_t n = slash ? (size_t)(slash - text) - at : size - at;

		if (!is_word(text + at, at == 0 && slash ? without_port(text, n) : n))
			return false;
		if (!slash)
			return true;
		at += n + 1;
	}
}

static bool is_tag(const char *text)
{
	size_t n = strlen(text);

	return n > 0 && n <= TAG_MAX && text[0] != '.' && text[0] != '-' &&
	       strspn(text, TAG_CHARS) == n;
}

/* Where the tag begins: the last colon, unless it belongs to a port. */
static const char *find_tag(const char *text)
{
	const char *colon = strrchr(text, ':');

	return colon && !strchr(colon, '/') ? colon : NULL;
}

int image_parse_name(const char *text, char ret[IMAGE_NAME_MAX + 1], struct err *err)
{
	const char *colon = find_tag(text);
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	const char *tag = colon ? colon + 1 : "latest";

	if (n + strlen(tag) + 1 > IMAGE_NAME_MAX)
		return err_set(err, -EINVAL, "image name %s is longer than %u bytes",
			quote(text).text, IMAGE_NAME_MAX);
	if (!is_repository(text, n) || !is_tag(tag) || (n == 6 && strncmp(text, "sha256", 6) == 0))
		return err_set(err, -EINVAL,
			"%s is not an image name, one looks like 'python:3.11-slim'",
			quote(text).text);
	if (n == strlen(IMAGE_HOST) && strncmp(text, IMAGE_HOST, n) == 0)
		return err_set(
			err, -EINVAL, "'host' is this machine itself, no image can be called so");
	(void)snprintf(ret, IMAGE_NAME_MAX + 1, "%.*s:%s", (int)n, text, tag);
	return 0;
}

/* Only we, or root, may be able to change what a box is made of. */
static int check_owner(int fd, const char *what, bool or_root, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "stat %s", what);
	if (st.st_uid != geteuid() && !(or_root && st.st_uid == 0))
		return err_set(
			err, -EPERM, "%s belongs to uid %u, not to us", what, (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM, "others can write to %s", what);
	return 0;
}

int image_open_dir(const char *root, int *ret_fd, struct err *err)
{
	AUTO_FD root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return err_errno(err, "open %.160s", root);
	AUTO_FD fd = openat(root_fd, "images", DIR_FLAGS);
	if (fd < 0)
		return err_errno(err, "open %.160s/images", root);
	int r = check_owner(fd, "the images directory", true, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

static json_t *describe_host(void)
{
	char text[8192];
	char name[128] = "this machine";

	if (fd_read_text(AT_FDCWD, "/etc/os-release", text, sizeof(text)) > 0) {
		const char *line = strstr(text, "PRETTY_NAME=\"");
		if (line)
			(void)sscanf(line, "PRETTY_NAME=\"%127[^\"\n]", name);
	}
	return json_pack("{s:[s], s:s, s:s}", "names", IMAGE_HOST, "digest", IMAGE_HOST,
		"description", name);
}

static json_t *describe_problem(const char *hex, const char *text)
{
	return json_pack("{s:[], s:s+, s:s}", "names", "digest", "sha256:", hex, "problem", text);
}

/* The record of one image; always something, so that a broken one is seen too. */
static json_t *read_record(int images_fd, const char *hex)
{
	AUTO_FD dir_fd = openat(images_fd, hex, DIR_FLAGS);
	AUTO_FD fd = openat(dir_fd, "image.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	json_t *json = NULL;
	struct err err = { 0 };

	if (fd < 0)
		(void)err_errno(&err, "open image.json");
	else if (document_read(fd, "image.json", &json, &err) == 0 &&
		 json_is_array(json_object_get(json, "names")))
		return json;
	json_decref(json);
	return describe_problem(hex, err.code ? err.text : "image.json has no names");
}

static const char *first_name(const json_t *record)
{
	const char *name = json_string_value(json_array_get(json_object_get(record, "names"), 0));

	return name ? name : "~"; /* sorts behind all names */
}

static int compare_records(const void *a, const void *b)
{
	const json_t *ra = *(json_t *const *)a;
	const json_t *rb = *(json_t *const *)b;
	int order = strcmp(first_name(ra), first_name(rb));

	return order ? order
		     : strcmp(json_string_value(json_object_get(ra, "digest")),
			       json_string_value(json_object_get(rb, "digest")));
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

/* All records in no order; the number of them, or a negative errno. */
static ssize_t read_records(int images_fd, json_t **records)
{
	const struct dirent *entry;
	size_t n = 0;
	AUTO_FD copy = openat(images_fd, ".", DIR_FLAGS);

	if (copy < 0)
		return -errno;
	CLEANUP(close_dirp) DIR *dir = fdopendir(copy);
	if (!dir)
		return -errno;
	(void)take_fd(&copy);
	while ((entry = readdir(dir)) && n < IMAGES_MAX) {
		if (!str_is_hex(entry->d_name, IMAGE_HEX_SIZE))
			continue;
		json_t *record = read_record(images_fd, entry->d_name);
		/* What is shown as the digest is where it was found. */
		char digest[IMAGE_HEX_SIZE + 8];
		(void)snprintf(digest, sizeof(digest), "sha256:%.64s", entry->d_name);
		(void)json_object_set_new(record, "digest", json_string(digest));
		records[n++] = record;
	}
	return (ssize_t)n;
}

int image_list(const char *root, json_t **ret, struct err *err)
{
	AUTO_FD images_fd = -1;
	AUTO_FREE json_t **records = xcalloc(IMAGES_MAX, sizeof(*records));
	ssize_t n = 0;

	int r = image_open_dir(root, &images_fd, err);
	if (r == 0)
		n = read_records(images_fd, records);
	else if (r != -ENOENT)
		return r;
	if (n < 0)
		return err_set(err, (int)n, "read %.160s/images: %s", root, strerror((int)-n));
	qsort(records, (size_t)n, sizeof(json_t *), compare_records);
	json_t *list = json_array();
	(void)json_array_append_new(list, describe_host());
	for (ssize_t i = 0; i < n; i++)
		(void)json_array_append_new(list, records[i]);
	*ret = list;
	return 0;
}

static bool has_name(const json_t *record, const char *name)
{
	size_t i;
	const json_t *item;

	json_array_foreach(json_object_get(record, "names"), i, item)
	{
		if (json_is_string(item) && streq(json_string_value(item), name))
			return true;
	}
	return false;
}

static json_t *find_by_name(const json_t *list, const char *text)
{
	char name[IMAGE_NAME_MAX + 1];
	size_t i;
	json_t *record;

	if (streq(text, IMAGE_HOST))
		return json_array_get(list, 0);
	if (image_parse_name(text, name, NULL) < 0)
		return NULL;
	json_array_foreach(list, i, record)
	{
		if (has_name(record, name))
			return record;
	}
	return NULL;
}

/* By "sha256:<hex>" or the beginning of it. */
static int find_by_hex(const json_t *list, const char *text, json_t **ret, struct err *err)
{
	const char *after = str_after(text, "sha256:");
	const char *hex = after ? after : text;
	size_t n = strlen(hex);
	json_t *found = NULL;
	size_t i;
	json_t *record;

	if (n < HEX_MIN || n > IMAGE_HEX_SIZE || !str_is_hex(hex, n))
		return -ENOENT;
	json_array_foreach(list, i, record)
	{
		const char *digest = json_string_value(json_object_get(record, "digest"));
		const char *rest = str_after(digest, "sha256:");

		if (!rest || strncmp(rest, hex, n) != 0)
			continue;
		if (found)
			return err_set(err, -ENOTUNIQ,
				"several images begin with '%s', give more digits", hex);
		found = record;
	}
	*ret = found;
	return found ? 0 : -ENOENT;
}

/* The known name that is nearest to `text`, comparing also without ":latest". */
static const char *nearest_name(const json_t *list, const char *text, char buf[IMAGE_NAME_MAX + 1])
{
	AUTO_FREE const char **words = xcalloc(IMAGES_MAX, sizeof(*words));
	char name[IMAGE_NAME_MAX + 1];
	size_t n = 0;
	size_t i;
	const json_t *record;

	json_array_foreach(list, i, record)
	{
		size_t j;
		const json_t *item;

		json_array_foreach(json_object_get(record, "names"), j, item)
		{
			if (n < IMAGES_MAX && json_is_string(item))
				words[n++] = json_string_value(item);
		}
	}
	const char *near = str_nearest(text, words, n);
	if (!near && image_parse_name(text, name, NULL) == 0)
		near = str_nearest(name, words, n);
	if (!near)
		return NULL;
	(void)snprintf(buf, IMAGE_NAME_MAX + 1, "%s", near);
	return buf;
}

static int refuse_unknown(const json_t *list, const char *text, struct err *err)
{
	char buf[IMAGE_NAME_MAX + 1];
	const char *near = nearest_name(list, text, buf);

	if (near)
		return err_set(err, -ENOENT,
			"no image %s, did you mean %s? `belljar image list` shows all",
			quote(text).text, quote(near).text);
	return err_set(err, -ENOENT,
		"no image %s: `belljar image list` shows what there is, "
		"`belljar image import` adds one",
		quote(text).text);
}

int image_find(const char *root, const char *name, json_t **ret, struct err *err)
{
	AUTO_JSON *list = NULL;

	int r = image_list(root, &list, err);
	if (r < 0)
		return r;
	json_t *found = find_by_name(list, name);
	if (!found) {
		r = find_by_hex(list, name, &found, err);
		if (r == -ENOENT)
			return refuse_unknown(list, name, err);
		if (r < 0)
			return r;
	}
	*ret = json_incref(found);
	return 0;
}

int image_resolve(
	const char *root, const char *name, char ret_hex[IMAGE_HEX_SIZE + 1], struct err *err)
{
	AUTO_JSON *found = NULL;

	/* Always there, and the most wanted: no other need be looked at. */
	if (streq(name, IMAGE_HOST)) {
		(void)snprintf(ret_hex, IMAGE_HEX_SIZE + 1, "%s", IMAGE_HOST);
		return 0;
	}
	int r = image_find(root, name, &found, err);
	if (r < 0)
		return r;
	const char *digest = json_string_value(json_object_get(found, "digest"));
	const char *hex = str_after(digest, "sha256:");
	(void)snprintf(ret_hex, IMAGE_HEX_SIZE + 1, "%s", hex ? hex : digest);
	return 0;
}

int image_open_rootfs(int images_fd, const char *hex, int *ret_fd, struct err *err)
{
	char what[IMAGE_HEX_SIZE + 32];

	if (!str_is_hex(hex, IMAGE_HEX_SIZE))
		return err_set(err, -EINVAL, "%s is not the digest of an image", quote(hex).text);
	(void)snprintf(what, sizeof(what), "image %.12s", hex);
	int r = check_owner(images_fd, "the images directory", false, err);
	if (r < 0)
		return r;
	AUTO_FD dir_fd = openat(images_fd, hex, DIR_FLAGS);
	if (dir_fd < 0)
		return err_errno(err, "%s", what);
	r = check_owner(dir_fd, what, false, err);
	if (r < 0)
		return r;
	AUTO_FD fd = openat(dir_fd, "rootfs", DIR_FLAGS);
	if (fd < 0)
		return err_errno(err, "the root of %s", what);
	r = check_owner(fd, what, false, err);
	if (r < 0)
		return r;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return err_set(err, -EBUSY, "%s is being removed", what);
	*ret_fd = take_fd(&fd);
	return 0;
}
