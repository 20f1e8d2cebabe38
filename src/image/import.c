/* One lock and one directory per import:
 *
 *	images/             flock held while the set changes, for moments
 *	images/.import-X/   flock held by a living import for all its life
 *	images/.import-X/source   an unpacked archive
 *	images/.import-X/image    what becomes images/<hex>
 *
 * A new import, under the first lock, removes the directories whose own lock is
 * free: their makers are dead. */
#include "image/import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/str.h"
#include "image/budget.h"
#include "image/document.h"
#include "image/plan.h"
#include "image/skeleton.h"
#include "image/source.h"
#include "image/tree.h"

#define WORK_PREFIX ".import-"
#define DIR_FLAGS   (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct import {
	const struct import_options *options;
	int images_fd;
	int work_fd; /* locked */
	char work_name[sizeof(WORK_PREFIX) + 16];
	int source_fd;
	int image_fd;
	struct budget budget;
	struct plan *plan;
	json_t *names;
	json_t *record;
};

static void close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

static int lock_images(int images_fd, struct err *err)
{
	int r;

	do {
		r = flock(images_fd, LOCK_EX);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? err_errno(err, "lock the images directory") : 0;
}

/* Remove `name` when nobody living holds its lock. */
static void sweep_one(int images_fd, const char *name)
{
	AUTO_FD fd = openat(images_fd, name, DIR_FLAGS);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		(void)fd_remove_tree(images_fd, name);
}

/* Called with the images locked, so that none is between its birth and its lock. */
static void sweep(int images_fd)
{
	const struct dirent *entry;
	AUTO_FD copy = openat(images_fd, ".", DIR_FLAGS);
	CLEANUP(close_dirp) DIR *dir = copy < 0 ? NULL : fdopendir(copy);

	if (!dir)
		return;
	(void)take_fd(&copy);
	while ((entry = readdir(dir))) {
		if (str_after(entry->d_name, WORK_PREFIX))
			sweep_one(images_fd, entry->d_name);
	}
}

/* A directory of our own below `images_fd`, locked. */
static int make_work(int images_fd, char *name, size_t size, int *ret_fd, struct err *err)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_errno(err, "getrandom");
	(void)snprintf(
		name, size, WORK_PREFIX "%012llx", (unsigned long long)(random & 0xffffffffffff));
	if (mkdirat(images_fd, name, 0700) < 0)
		return err_errno(err, "mkdir %s", name);
	AUTO_FD fd = openat(images_fd, name, DIR_FLAGS);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = err_errno(err, "lock %s", name);
		(void)unlinkat(images_fd, name, AT_REMOVEDIR);
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

static int begin(struct import *im, struct err *err)
{
	/* Others may look at what is public in the machine's own state. */
	mode_t mode = geteuid() == 0 ? 0755 : 0700;
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s/images", im->options->root) < 0)
		return err_set(err, -ENOMEM, "no memory for a path");
	int r = path_make_dirs(path, mode, err);
	if (r == 0)
		r = image_open_dir(im->options->root, &im->images_fd, err);
	if (r == 0)
		r = lock_images(im->images_fd, err);
	if (r < 0)
		return r;
	sweep(im->images_fd);
	r = make_work(im->images_fd, im->work_name, sizeof(im->work_name), &im->work_fd, err);
	(void)flock(im->images_fd, LOCK_UN);
	return r;
}

/* Open what is imported, and find out what is to be done. */
static int read_source(struct import *im, struct err *err)
{
	int r = source_open(
		im->options->source, im->work_fd, im->options->bytes_max, &im->source_fd, err);
	if (r == 0)
		r = plan_make(im->source_fd, im->options->ref, &im->plan, err);
	return r < 0 ? err_wrap(err, r, quote(im->options->source).text) : 0;
}

static bool has_string(const json_t *array, const char *text)
{
	size_t i;
	const json_t *item;

	json_array_foreach(array, i, item)
	{
		const char *value = json_string_value(item);

		if (value && streq(value, text))
			return true;
	}
	return false;
}

/* Some programs write only the tag where the name belongs. */
static bool is_tag_only(const char *text)
{
	bool is_version = strchr("0123456789", text[text[0] == 'v']) != NULL;

	return !strpbrk(text, ":/") && (streq(text, "latest") || is_version);
}

static int add_name(json_t *names, const char *text, struct err *err)
{
	char name[IMAGE_NAME_MAX + 1];

	int r = image_parse_name(text, name, err);
	if (r < 0)
		return r;
	if (has_string(names, name))
		return 0;
	if (json_array_size(names) >= IMAGE_NAMES_MAX)
		return err_set(err, -EFBIG, "the image has more than %u names", IMAGE_NAMES_MAX);
	(void)json_array_append_new(names, json_string(name));
	return 0;
}

static int choose_names(struct import *im, struct err *err)
{
	size_t i;
	const json_t *item;

	im->names = json_array();
	if (im->options->name)
		return add_name(im->names, im->options->name, err);
	json_array_foreach(im->plan->names, i, item)
	{
		const char *text = json_string_value(item);

		if (!text || !*text || is_tag_only(text))
			continue;
		int r = add_name(im->names, text, err);
		if (r < 0)
			return r;
	}
	if (json_array_size(im->names) == 0)
		return err_set(err, -EINVAL, "%s does not say what it is called, use --name",
			quote(im->options->source).text);
	return 0;
}

static int apply_layer(struct import *im, struct tree *tree, size_t i, struct err *err)
{
	const struct plan_layer *layer = &im->plan->layers[i];
	AUTO_FD fd = -1;
	char what[64];

	int r = tree_open_file(im->source_fd, layer->path, &fd, err);
	if (r == 0)
		r = layer_apply(tree, fd, &layer->digests, &im->budget, err);
	(void)snprintf(what, sizeof(what), "layer %zu of %zu", i + 1, im->plan->n_layers);
	return r < 0 ? err_wrap(err, r, what) : 0;
}

static int make_dir_at(int dir_fd, const char *name, int *ret_fd, struct err *err)
{
	/* Never less than the umask would leave: a box has another uid than we. */
	if (mkdirat(dir_fd, name, 0755) < 0 || fchmodat(dir_fd, name, 0755, 0) < 0)
		return err_errno(err, "mkdir %s", name);
	int fd = openat(dir_fd, name, DIR_FLAGS);
	if (fd < 0)
		return err_errno(err, "open %s", name);
	*ret_fd = fd;
	return 0;
}

static int build_root(struct import *im, struct err *err)
{
	AUTO_FD root_fd = -1;
	struct tree tree;

	int r = make_dir_at(im->work_fd, "image", &im->image_fd, err);
	if (r == 0)
		r = make_dir_at(im->image_fd, "rootfs", &root_fd, err);
	if (r < 0)
		return r;
	budget_init(&im->budget, im->options->bytes_max, root_fd);
	tree_init(&tree, root_fd);
	for (size_t i = 0; r == 0 && i < im->plan->n_layers; i++)
		r = apply_layer(im, &tree, i, err);
	if (r == 0)
		r = skeleton_make(&tree, err);
	tree_fini(&tree);
	return r;
}

static json_t *list_layers(const struct plan *plan)
{
	json_t *list = json_array();

	for (size_t i = 0; i < plan->n_layers; i++)
		(void)json_array_append_new(
			list, json_sprintf("sha256:%s", plan->layers[i].digests.plain));
	return list;
}

static json_t *make_record(const struct import *im)
{
	const struct plan *plan = im->plan;
	time_t now = time(NULL);
	struct tm tm;
	char when[32];

	(void)gmtime_r(&now, &tm);
	(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_t *record =
		json_pack("{s:O, s:s+, s:s, s:s, s:s, s:O, s:o, s:I, s:I, s:s}", "names", im->names,
			"digest", "sha256:", plan->hex, "architecture", plan->config.architecture,
			"os", "linux", "format", plan->format, "config", plan->config.run, "layers",
			list_layers(plan), "size", (json_int_t)im->budget.content, "entries",
			(json_int_t)im->budget.entries, "imported_at", when);
	if (*plan->manifest_hex)
		(void)json_object_set_new(
			record, "manifest", json_sprintf("sha256:%s", plan->manifest_hex));
	return record;
}

/* Replace image.json in one step. */
static int write_record(int image_fd, const json_t *record, struct err *err)
{
	AUTO_FREE char *text = json_dumps(record, JSON_INDENT(2) | JSON_SORT_KEYS);

	if (!text)
		return err_set(err, -ENOMEM, "no memory for image.json");
	(void)unlinkat(image_fd, "image.json.new", 0);
	AUTO_FD fd = openat(image_fd, "image.json.new",
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) < 0)
		return err_errno(err, "create image.json");
	int r = fd_write_full(fd, text, strlen(text));
	if (r < 0)
		return err_set(err, r, "write image.json: %s", strerror(-r));
	if (renameat(image_fd, "image.json.new", image_fd, "image.json") < 0)
		return err_errno(err, "rename image.json");
	return 0;
}

static int save_record(int images_fd, const json_t *record, struct err *err)
{
	const char *digest = json_string_value(json_object_get(record, "digest"));
	AUTO_FD fd = openat(images_fd, str_after(digest, "sha256:"), DIR_FLAGS);

	if (fd < 0)
		return err_errno(err, "open the image");
	return write_record(fd, record, err);
}

/* Drop from `record` the names that another image takes over; true if any was. */
static bool drop_names(json_t *record, const json_t *taken)
{
	json_t *names = json_object_get(record, "names");
	size_t before = json_array_size(names);

	for (size_t i = before; i-- > 0;) {
		const char *name = json_string_value(json_array_get(names, i));

		if (name && has_string(taken, name))
			(void)json_array_remove(names, i);
	}
	return json_array_size(names) < before;
}

/* A name means one image: the last one that got it. */
static int take_over_names(const struct import *im, const json_t *list, struct err *err)
{
	size_t i;
	json_t *record;

	json_array_foreach(list, i, record)
	{
		const char *digest = json_string_value(json_object_get(record, "digest"));
		const char *hex = str_after(digest, "sha256:");

		if (!hex || streq(hex, im->plan->hex) || json_object_get(record, "problem") ||
			!drop_names(record, im->names))
			continue;
		int r = save_record(im->images_fd, record, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The record of this image from an earlier import; NULL when there is none that
 * could be used. */
static json_t *find_earlier(const struct import *im, const json_t *list)
{
	size_t i;
	json_t *record;

	json_array_foreach(list, i, record)
	{
		const char *digest = json_string_value(json_object_get(record, "digest"));
		const char *hex = str_after(digest, "sha256:");

		if (hex && streq(hex, im->plan->hex) && !json_object_get(record, "problem"))
			return record;
	}
	return NULL;
}

static int add_names_to(struct import *im, json_t *earlier, struct err *err)
{
	size_t i;
	const json_t *name;

	json_array_foreach(im->names, i, name)
	{
		int r = add_name(json_object_get(earlier, "names"), json_string_value(name), err);
		if (r < 0)
			return r;
	}
	int r = save_record(im->images_fd, earlier, err);
	if (r == 0)
		im->record = json_incref(earlier);
	return r;
}

static int publish_new(struct import *im, struct err *err)
{
	/* Something broken may be in the way; it has no reader. */
	int r = fd_remove_tree(im->images_fd, im->plan->hex);
	if (r < 0)
		return err_set(err, r, "remove a damaged image: %s", strerror(-r));
	im->record = make_record(im);
	r = write_record(im->image_fd, im->record, err);
	if (r < 0)
		return r;
	if (renameat(im->work_fd, "image", im->images_fd, im->plan->hex) < 0)
		return err_errno(err, "rename the image");
	return 0;
}

static int publish(struct import *im, struct err *err)
{
	AUTO_JSON *list = NULL;

	int r = lock_images(im->images_fd, err);
	if (r == 0)
		r = image_list(im->options->root, &list, err);
	if (r == 0) {
		json_t *earlier = find_earlier(im, list);
		r = earlier ? add_names_to(im, earlier, err) : publish_new(im, err);
	}
	if (r == 0)
		r = take_over_names(im, list, err);
	(void)flock(im->images_fd, LOCK_UN);
	return r;
}

/* Whatever happened, only a published image stays. */
static void end(struct import *im)
{
	if (im->work_fd >= 0)
		(void)fd_remove_tree(im->images_fd, im->work_name);
	plan_free(im->plan);
	json_decref(im->names);
	json_decref(im->record);
	close_fdp(&im->image_fd);
	close_fdp(&im->source_fd);
	close_fdp(&im->work_fd);
	close_fdp(&im->images_fd);
}

static int (*const steps[])(struct import *im, struct err *err) = {
	begin,
	read_source,
	choose_names,
	build_root,
	publish,
};

int import_image(const struct import_options *options, json_t **ret, struct err *err)
{
	struct import im = {
		.options = options,
		.images_fd = -1,
		.work_fd = -1,
		.source_fd = -1,
		.image_fd = -1,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++)
		r = steps[i](&im, err);
	if (r == 0)
		*ret = json_incref(im.record);
	end(&im);
	return r;
}

/* Rename first, so that the image is gone at once and a killed removal is swept. */
static int remove_tree(int images_fd, const char *hex, struct err *err)
{
	char work[sizeof(WORK_PREFIX) + 16];
	AUTO_FD work_fd = -1;

	int r = make_work(images_fd, work, sizeof(work), &work_fd, err);
	if (r < 0)
		return r;
	if (renameat(images_fd, hex, work_fd, "image") < 0)
		r = err_errno(err, "rename the image");
	int removed = fd_remove_tree(images_fd, work);
	if (r == 0 && removed < 0)
		r = err_set(err, removed, "remove the image: %s", strerror(-removed));
	return r;
}

/* Remove the image `hex` unless a box holds its root. */
static int remove_image(int images_fd, const char *hex, struct err *err)
{
	char path[IMAGE_HEX_SIZE + 16];

	(void)snprintf(path, sizeof(path), "%s/rootfs", hex);
	AUTO_FD root_fd = openat(images_fd, path, DIR_FLAGS);
	if (root_fd >= 0 && flock(root_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, -EBUSY,
			"image %.12s is in use by a running box, or was a moment ago", hex);
	int r = remove_tree(images_fd, hex, err);
	return r < 0 ? r : 1;
}

static int remove_name(const char *root, int images_fd, const char *text, struct err *err)
{
	AUTO_JSON *record = NULL;
	char name[IMAGE_NAME_MAX + 1];

	int r = image_find(root, text, &record, err);
	if (r < 0)
		return r;
	json_t *names = json_object_get(record, "names");
	const char *digest = json_string_value(json_object_get(record, "digest"));
	bool is_name = image_parse_name(text, name, NULL) == 0 && has_string(names, name);
	if (!is_name || json_array_size(names) == 1)
		return remove_image(images_fd, str_after(digest, "sha256:"), err);
	AUTO_JSON *dropped = json_pack("[s]", name);
	(void)drop_names(record, dropped);
	return save_record(images_fd, record, err);
}

int import_remove(const char *root, const char *name, struct err *err)
{
	AUTO_FD images_fd = -1;

	if (streq(name, IMAGE_HOST))
		return err_set(
			err, -EINVAL, "'host' is this machine itself and can not be removed");
	int r = image_open_dir(root, &images_fd, err);
	/* Nothing was ever imported: let the lookup say so in its words. */
	if (r == -ENOENT)
		return remove_name(root, -1, name, err);
	if (r == 0)
		r = lock_images(images_fd, err);
	return r < 0 ? r : remove_name(root, images_fd, name, err);
}
