#include "image/import.h"

#include <dirent.h>
#include <errno.h>
#include <sys/file.h>

#include "base/err.h"
#include "base/str.h"
#include "image/document.h"
#include "image/sample.h"
#include "lib/test.h"

static const struct sample_entry good[] = {
	{ "etc", S_IFDIR | 0755, NULL },
	{ "etc/motd", S_IFREG | 0600, "hello" },
	{ 0 },
};

static const struct sample_entry evil[] = {
	{ "etc/motd", S_IFREG | 0600, "hello" },
	{ "../evil", S_IFREG | 0600, "x" },
	{ 0 },
};

/* How many things lie in <root>/images. */
static int count(const struct sample_dir *root)
{
	char path[96];
	const struct dirent *entry;
	int n = 0;

	(void)snprintf(path, sizeof(path), "%s/images", root->path);
	DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		n += !streq(entry->d_name, ".") && !streq(entry->d_name, "..");
	if (dir)
		(void)closedir(dir);
	return n;
}

static int import(const struct sample_dir *root, const struct sample_dir *source, const char *name,
	struct err *err)
{
	const struct import_options options = {
		.root = root->path,
		.source = source->path,
		.name = name,
		.bytes_max = 1 << 20,
	};
	AUTO_JSON *record = NULL;

	return import_image(&options, &record, err);
}

TEST(an_image_is_imported_named_and_removed)
{
	SAMPLE_DIR(root);
	SAMPLE_DIR(source);
	char hex[IMAGE_HEX_SIZE + 1];
	char found[IMAGE_HEX_SIZE + 1];
	char path[128];

	sample_layout(&source, good, hex);
	CHECK_EQ(import(&root, &source, "a", NULL), 0);
	CHECK_EQ(import(&root, &source, "b:2", NULL), 0);
	CHECK_EQ(count(&root), 1);
	CHECK_EQ(image_resolve(root.path, "b:2", found, NULL), 0);
	CHECK_STR(found, hex);
	(void)snprintf(path, sizeof(path), "images/%s/rootfs/etc/motd", hex);
	CHECK_STR(sample_read(root.fd, path), "hello");
	CHECK_EQ(import_remove(root.path, "a", NULL), 0);
	CHECK_EQ(count(&root), 1);
	CHECK_EQ(import_remove(root.path, "b:2", NULL), 1);
	CHECK_EQ(count(&root), 0);
	CHECK_EQ(import_remove(root.path, "b:2", NULL), -ENOENT);
	CHECK_EQ(import_remove(root.path, "host", NULL), -EINVAL);
}

TEST(a_failed_import_leaves_nothing)
{
	SAMPLE_DIR(root);
	SAMPLE_DIR(source);
	char hex[IMAGE_HEX_SIZE + 1];
	struct err err = { 0 };

	sample_layout(&source, evil, hex);
	CHECK_EQ(import(&root, &source, "a", &err), -EINVAL);
	CHECK_STR(err.text, "layer 1 of 1: entry '../evil': the path holds '..'");
	CHECK_EQ(count(&root), 0);
	sample_layout(&source, good, hex);
	CHECK_EQ(import(&root, &source, NULL, &err), -EINVAL);
	CHECK(strstr(err.text, "use --name"));
	CHECK_EQ(count(&root), 0);
}

TEST(what_the_dead_left_is_removed_and_the_living_are_spared)
{
	SAMPLE_DIR(root);
	SAMPLE_DIR(source);
	char hex[IMAGE_HEX_SIZE + 1];

	sample_layout(&source, good, hex);
	CHECK_EQ(mkdirat(root.fd, "images", 0755), 0);
	CHECK_EQ(mkdirat(root.fd, "images/.import-dead", 0700), 0);
	sample_write(root.fd, "images/.import-dead/file", "x", 1);
	CHECK_EQ(mkdirat(root.fd, "images/.import-living", 0700), 0);
	AUTO_FD living = openat(root.fd, "images/.import-living", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(flock(living, LOCK_EX), 0);
	CHECK_EQ(import(&root, &source, "a", NULL), 0);
	CHECK_EQ(count(&root), 2);
	CHECK_EQ(faccessat(root.fd, "images/.import-living", F_OK, 0), 0);
}

TEST(an_image_in_use_stays)
{
	SAMPLE_DIR(root);
	SAMPLE_DIR(source);
	char hex[IMAGE_HEX_SIZE + 1];
	AUTO_FD images_fd = -1;
	AUTO_FD fd = -1;

	sample_layout(&source, good, hex);
	CHECK_EQ(import(&root, &source, "a", NULL), 0);
	CHECK_EQ(image_open_dir(root.path, &images_fd, NULL), 0);
	CHECK_EQ(image_open_rootfs(images_fd, hex, &fd, NULL), 0);
	CHECK_EQ(import_remove(root.path, "a", NULL), -EBUSY);
	close_fdp(&fd);
	CHECK_EQ(import_remove(root.path, "a", NULL), 1);
}

TESTS(UNIT(an_image_is_imported_named_and_removed), UNIT(a_failed_import_leaves_nothing),
	UNIT(what_the_dead_left_is_removed_and_the_living_are_spared), UNIT(an_image_in_use_stays))
