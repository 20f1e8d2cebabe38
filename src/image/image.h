/* Imported images: finding one by what a person calls it, and opening its root.
 * They lie below the state directory,
 *
 *	<root>/images/<hex>/rootfs       what a box sees, read-only
 *	<root>/images/<hex>/image.json   names, configuration, layers
 *
 * where <hex> is the sha256 of the image's configuration. "host" is not imported:
 * it stands for the machine's own /usr. This file is also in the client library,
 * and needs nothing but jansson. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define IMAGE_HEX_SIZE  64
#define IMAGE_NAME_MAX  255u
#define IMAGE_NAMES_MAX 64u   /* of one image */
#define IMAGES_MAX      4096u /* that are looked at */
#define IMAGE_HOST      "host"

/* Turn what a person or an archive calls an image into the one form it is kept in,
 * "repository:tag", with "latest" when there is no tag. -EINVAL for what is not a
 * name, and for "host", which can not be given away. */
int image_parse_name(const char *text, char ret[IMAGE_NAME_MAX + 1], struct err *err);

/* Find the image called `name`: "host", a name with or without ":latest",
 * "sha256:<hex>", or the beginning of its hex that no other shares. Writes "host"
 * or 64 hex digits. -ENOENT names the nearest known image and what to do, -ENOTUNIQ
 * means that the beginning fits several. */
int image_resolve(
	const char *root, const char *name, char ret_hex[IMAGE_HEX_SIZE + 1], struct err *err);

/* All images, "host" first, then by name: an array of what image.json holds, which
 * the caller must json_decref(). One that can not be read has a "problem". */
int image_list(const char *root, json_t **ret, struct err *err);

/* The one called `name`, as image_list() has it. */
int image_find(const char *root, const char *name, json_t **ret, struct err *err);

/* Open <root>/images for reading. -ENOENT when nothing was ever imported; -EPERM
 * when others could change it. */
int image_open_dir(const char *root, int *ret_fd, struct err *err);

/* For the keeper: open the root of the image `hex` below the images directory,
 * having checked that it is a real directory, that it is ours (by effective uid),
 * and that nobody else can write to it. The descriptor holds a shared lock: as long
 * as it or a duplicate is open, the image can not be removed. -ENOENT, -EPERM, or
 * -EBUSY while the image is being removed. */
int image_open_rootfs(int images_fd, const char *hex, int *ret_fd, struct err *err);
