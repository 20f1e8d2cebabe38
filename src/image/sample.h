/* Small archives and images for the tests of this directory. */
#pragma once
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/path.h"
#include "image/config.h"

#define SAMPLE_UNUSED __attribute__((unused))

/* A fresh directory, removed by sample_remove(). */
struct sample_dir {
	char path[64];
	int fd;
};

SAMPLE_UNUSED static void sample_make(struct sample_dir *d)
{
	(void)snprintf(d->path, sizeof(d->path), "/tmp/image_test.XXXXXX");
	d->fd = mkdtemp(d->path) ? open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (d->fd < 0 || fchmod(d->fd, 0755) < 0)
		abort();
}

SAMPLE_UNUSED static void sample_remove(struct sample_dir *d)
{
	(void)close(d->fd);
	if (fd_remove_tree(AT_FDCWD, d->path) < 0)
		abort();
}

#define SAMPLE_DIR(name)                                                                           \
	CLEANUP(sample_remove) struct sample_dir name;                                             \
	sample_make(&name)

struct sample_entry {
	const char *name;
	mode_t mode;      /* with the type: S_IFREG | 0644 */
	const char *text; /* content, or target of a link */
	bool is_hard;     /* the text is the target of a hard link */
	int64_t size;     /* instead of the text's, when not 0 */
};

struct sample_data {
	char *data;
	size_t size;
};

SAMPLE_UNUSED static void sample_data_fini(struct sample_data *d)
{
	free(d->data);
}

#define SAMPLE_DATA CLEANUP(sample_data_fini) struct sample_data

static inline void sample_put(struct archive *a, const struct sample_entry *e)
{
	struct archive_entry *entry = archive_entry_new();
	bool has_content = S_ISREG(e->mode) && e->text && !e->is_hard;

	archive_entry_set_pathname(entry, e->name);
	archive_entry_set_mode(entry, e->mode);
	archive_entry_set_size(
		entry, e->size ? e->size : (has_content ? (la_int64_t)strlen(e->text) : 0));
	if (e->is_hard)
		archive_entry_set_hardlink(entry, e->text);
	else if (S_ISLNK(e->mode))
		archive_entry_set_symlink(entry, e->text);
	if (archive_write_header(a, entry) != ARCHIVE_OK)
		abort();
	if (has_content)
		(void)archive_write_data(a, e->text, strlen(e->text));
	archive_entry_free(entry);
}

/* A tar archive of the entries, up to the one without a name. */
SAMPLE_UNUSED static struct sample_data sample_tar(const struct sample_entry *entries, bool gzip)
{
	struct sample_data d = { .data = malloc(1 << 20) };
	struct archive *a = archive_write_new();

	if (!d.data || archive_write_set_format_pax_restricted(a) != ARCHIVE_OK ||
		(gzip && archive_write_add_filter_gzip(a) != ARCHIVE_OK) ||
		archive_write_open_memory(a, d.data, 1 << 20, &d.size) != ARCHIVE_OK)
		abort();
	for (; entries->name; entries++)
		sample_put(a, entries);
	(void)archive_write_close(a);
	(void)archive_write_free(a);
	return d;
}

/* A descriptor to read `data` from. */
SAMPLE_UNUSED static int sample_open(const void *data, size_t size)
{
	int fd = memfd_create("sample", MFD_CLOEXEC);

	if (fd < 0 || fd_write_full(fd, data, size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	return fd;
}

SAMPLE_UNUSED static void sample_write(int dir_fd, const char *name, const void *data, size_t size)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_full(fd, data, size) < 0)
		abort();
	(void)close(fd);
}

/* The content of a small file, or "" when there is none. */
SAMPLE_UNUSED static const char *sample_read(int dir_fd, const char *name)
{
	static char text[4096];

	return fd_read_text(dir_fd, name, text, sizeof(text)) < 0 ? "" : text;
}

/* Store a blob and put its descriptor into `buf`. */
static inline void sample_blob(
	int dir_fd, const void *data, size_t size, const char *media, char *buf, size_t buf_size)
{
	char hex[DIGEST_HEX_SIZE + 1];
	char name[DIGEST_HEX_SIZE + 32];

	digest_of(data, size, hex);
	(void)snprintf(name, sizeof(name), "blobs/sha256/%s", hex);
	sample_write(dir_fd, name, data, size);
	(void)snprintf(buf, buf_size,
		"{\"mediaType\":\"application/vnd.oci.image.%s\",\"digest\":\"sha256:%s\","
		"\"size\":%zu}",
		media, hex, size);
}

/* An OCI layout with one layer in the directory `d`. `config_hex` gets the name
 * under which it will be imported. */
SAMPLE_UNUSED static void sample_layout(const struct sample_dir *d,
	const struct sample_entry *entries, char config_hex[DIGEST_HEX_SIZE + 1])
{
	SAMPLE_DATA plain = sample_tar(entries, false);
	char text[2048];
	char layer[256];
	char config[256];
	char manifest[256];
	char hex[DIGEST_HEX_SIZE + 1];

	(void)mkdirat(d->fd, "blobs", 0755);
	(void)mkdirat(d->fd, "blobs/sha256", 0755);
	sample_blob(d->fd, plain.data, plain.size, "layer.v1.tar", layer, sizeof(layer));
	digest_of(plain.data, plain.size, hex);
	(void)snprintf(text, sizeof(text),
		"{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{\"Cmd\":[\"sh\"]},"
		"\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}",
		config_architecture(), hex);
	sample_blob(d->fd, text, strlen(text), "config.v1+json", config, sizeof(config));
	digest_of(text, strlen(text), config_hex);
	(void)snprintf(text, sizeof(text), "{\"config\":%s,\"layers\":[%s]}", config, layer);
	sample_blob(d->fd, text, strlen(text), "manifest.v1+json", manifest, sizeof(manifest));
	(void)snprintf(text, sizeof(text), "{\"manifests\":[%s]}", manifest);
	sample_write(d->fd, "index.json", text, strlen(text));
}
