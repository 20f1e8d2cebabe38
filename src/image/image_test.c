#include "image/image.h"

#include <errno.h>
#include <sys/file.h>

#include "base/err.h"
#include "image/document.h"
#include "image/sample.h"
#include "lib/test.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "aaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* An image as import leaves it, without content. */
static void put_image(const struct sample_dir *d, const char *hex, const char *names)
{
	char path[256];
	char text[256];

	(void)mkdirat(d->fd, "images", 0755);
	(void)snprintf(path, sizeof(path), "images/%s", hex);
	CHECK_EQ(mkdirat(d->fd, path, 0755), 0);
	(void)snprintf(path, sizeof(path), "images/%s/rootfs", hex);
	CHECK_EQ(mkdirat(d->fd, path, 0755), 0);
	(void)snprintf(path, sizeof(path), "images/%s/image.json", hex);
	(void)snprintf(text, sizeof(text), "{\"names\":%s}", names);
	sample_write(d->fd, path, text, strlen(text));
}

TEST(names_have_one_form)
{
	static const struct {
		const char *text;
		const char *name;
	} cases[] = {
		{ "a", "a:latest" },
		{ "python:3.11-slim", "python:3.11-slim" },
		{ "a/b_c/d.e:V1", "a/b_c/d.e:V1" },
		{ "localhost:5000/a", "localhost:5000/a:latest" },
		{ "localhost:5000/a:1", "localhost:5000/a:1" },
		{ "hosts", "hosts:latest" },
		{ "", NULL },
		{ ":", NULL },
		{ "a:", NULL },
		{ "a b", NULL },
		{ "A", NULL },
		{ "a/", NULL },
		{ "/a", NULL },
		{ "a//b", NULL },
		{ "..", NULL },
		{ "a/../b", NULL },
		{ "a:b:c/d", NULL },
		{ "host", NULL },
		{ "host:x", NULL },
		{ "sha256:" HEX_A, NULL },
		{ "a\x1b", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char name[IMAGE_NAME_MAX + 1];

		CHECK_EQ(image_parse_name(cases[i].text, name, NULL), cases[i].name ? 0 : -EINVAL);
		if (cases[i].name)
			CHECK_STR(name, cases[i].name);
	}
}

TEST(an_image_is_found_by_all_its_names)
{
	static const struct {
		const char *name;
		const char *hex;
		int code;
	} cases[] = {
		{ "host", "host", 0 },
		{ "a", HEX_A, 0 },
		{ "a:latest", HEX_A, 0 },
		{ "b:2", HEX_A, 0 },
		{ "c", HEX_B, 0 },
		{ HEX_A, HEX_A, 0 },
		{ "sha256:" HEX_B, HEX_B, 0 },
		{ "aaaaab", HEX_B, 0 },
		{ "sha256:aaaaaa", HEX_A, 0 },
		{ "aaaaa", NULL, -ENOTUNIQ },
		{ "aaa", NULL, -ENOENT },
		{ "b", NULL, -ENOENT },
		{ "", NULL, -ENOENT },
		{ "../x", NULL, -ENOENT },
		{ "sha256:" HEX_A "a", NULL, -ENOENT },
	};
	SAMPLE_DIR(d);

	put_image(&d, HEX_A, "[\"a:latest\", \"b:2\"]");
	put_image(&d, HEX_B, "[\"c:latest\"]");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char hex[IMAGE_HEX_SIZE + 1] = "untouched";

		CHECK_EQ(image_resolve(d.path, cases[i].name, hex, NULL), cases[i].code);
		CHECK_STR(hex, cases[i].hex ? cases[i].hex : "untouched");
	}
}

TEST(an_unknown_name_is_answered_with_the_nearest)
{
	SAMPLE_DIR(d);
	char hex[IMAGE_HEX_SIZE + 1];
	struct err err = { 0 };

	CHECK_EQ(image_resolve(d.path, "python", hex, &err), -ENOENT);
	CHECK(strstr(err.text, "`belljar image list`") && strstr(err.text, "import"));
	CHECK_EQ(image_resolve("/nowhere/at/all", "hots", hex, &err), -ENOENT);
	CHECK(strstr(err.text, "did you mean 'host'?"));
	put_image(&d, HEX_A, "[\"python:latest\"]");
	CHECK_EQ(image_resolve(d.path, "pyzhon", hex, &err), -ENOENT);
	CHECK(strstr(err.text, "no image 'pyzhon', did you mean 'python:latest'?"));
}

TEST(a_broken_image_has_a_problem)
{
	SAMPLE_DIR(d);
	AUTO_JSON *list = NULL;

	put_image(&d, HEX_A, "{");
	put_image(&d, HEX_B, "7");
	CHECK_EQ(image_list(d.path, &list, NULL), 0);
	CHECK_EQ(json_array_size(list), 3);
	for (size_t i = 1; i < 3; i++)
		CHECK(json_object_get(json_array_get(list, i), "problem") != NULL);
}

TEST(a_root_is_opened_only_when_it_is_ours)
{
	SAMPLE_DIR(d);
	AUTO_FD images_fd = -1;
	AUTO_FD fd = -1;

	put_image(&d, HEX_A, "[]");
	CHECK_EQ(image_open_dir(d.path, &images_fd, NULL), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &fd, NULL), 0);
	close_fdp(&fd);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_B, &fd, NULL), -ENOENT);
	CHECK_EQ(image_open_rootfs(images_fd, "..", &fd, NULL), -EINVAL);
	CHECK_EQ(image_open_rootfs(images_fd, "host", &fd, NULL), -EINVAL);
	CHECK_EQ(fchmodat(images_fd, HEX_A "/rootfs", 0777, 0), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &fd, NULL), -EPERM);
	CHECK_EQ(fchmodat(images_fd, HEX_A "/rootfs", 0755, 0), 0);
	CHECK_EQ(fchmodat(images_fd, HEX_A, 0775, 0), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &fd, NULL), -EPERM);
	CHECK_EQ(fchmodat(images_fd, HEX_A, 0755, 0), 0);
	if (geteuid() == 0) {
		CHECK_EQ(fchownat(images_fd, HEX_A, 65534, 65534, 0), 0);
		CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &fd, NULL), -EPERM);
		CHECK_EQ(fchownat(images_fd, HEX_A, 0, 0, 0), 0);
	}
	CHECK_EQ(fchmod(images_fd, 0777), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &fd, NULL), -EPERM);
	CHECK_EQ(fd, -1);
}

TEST(a_root_that_is_a_link_is_not_opened)
{
	SAMPLE_DIR(d);
	AUTO_FD images_fd = -1;
	AUTO_FD fd = -1;

	put_image(&d, HEX_A, "[]");
	CHECK_EQ(image_open_dir(d.path, &images_fd, NULL), 0);
	CHECK_EQ(symlinkat(HEX_A, images_fd, HEX_B), 0);
	CHECK(image_open_rootfs(images_fd, HEX_B, &fd, NULL) < 0);
	CHECK_EQ(unlinkat(images_fd, HEX_A "/rootfs", AT_REMOVEDIR), 0);
	CHECK_EQ(symlinkat("/", images_fd, HEX_A "/rootfs"), 0);
	CHECK(image_open_rootfs(images_fd, HEX_A, &fd, NULL) < 0);
	CHECK_EQ(fd, -1);
}

TEST(an_open_root_is_locked)
{
	SAMPLE_DIR(d);
	AUTO_FD images_fd = -1;
	AUTO_FD one = -1;
	AUTO_FD two = -1;

	put_image(&d, HEX_A, "[]");
	CHECK_EQ(image_open_dir(d.path, &images_fd, NULL), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &one, NULL), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &two, NULL), 0);
	AUTO_FD other = openat(images_fd, HEX_A "/rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(flock(other, LOCK_EX | LOCK_NB), -1);
	close_fdp(&one);
	close_fdp(&two);
	CHECK_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
	CHECK_EQ(image_open_rootfs(images_fd, HEX_A, &one, NULL), -EBUSY);
}

TESTS(UNIT(names_have_one_form), UNIT(an_image_is_found_by_all_its_names),
	UNIT(an_unknown_name_is_answered_with_the_nearest), UNIT(a_broken_image_has_a_problem),
	UNIT(a_root_is_opened_only_when_it_is_ours), UNIT(a_root_that_is_a_link_is_not_opened),
	UNIT(an_open_root_is_locked))
