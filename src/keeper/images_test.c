#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "keeper/sample.h"
#include "lib/scratch.h"
#include "lib/test.h"

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* A root as images.c keeps it, without its mounts. */
static struct root *add_root(struct keeper *k, const char *image, uint64_t used_ns)
{
	struct root *root = xnew(struct root);

	(void)snprintf(root->image, sizeof(root->image), "%s", image);
	root->ns_fd = -1;
	root->rootfs_fd = streq(image, "host") ? -1 : open("/", O_PATH | O_CLOEXEC);
	root->used_ns = used_ns;
	root->next = k->roots;
	k->roots = root;
	return root;
}

TEST(a_root_that_is_there_is_used_again)
{
	struct keeper k = { .images_fd = -1 };
	struct root *host = add_root(&k, "host", 0);
	struct root *image = add_root(&k, digest, 0);
	struct root *found = NULL;

	CHECK_EQ(images_find_root(&k, "host", &found, NULL), 0);
	CHECK(found == host);
	CHECK_EQ(images_find_root(&k, digest, &found, NULL), 0);
	CHECK(found == image && image->used_ns > 0);
	root_free(host);
	root_free(image);
}

TEST(an_image_that_is_not_there_is_told)
{
	SCRATCH(d);
	struct keeper k = { .images_fd = d.fd };
	struct root *found = NULL;
	struct err err = { 0 };

	CHECK_EQ(images_find_root(&k, digest, &found, &err), -ENOENT);
	CHECK(err.text[0] != '\0');
	CHECK(found == NULL && k.roots == NULL);
}

TEST(what_nobody_wants_any_more_is_let_go)
{
	struct keeper k = { .images_fd = -1 };
	uint64_t now = clock_monotonic_ns();
	uint64_t long_ago = now > UINT64_C(120000000000) ? now - UINT64_C(120000000000) : 0;
	struct boxed busy = { 0 };
	char other[65];

	if (long_ago == 0)
		SKIP("the machine has only just started");
	memset(other, 'a', 64);
	other[64] = '\0';
	struct root *host = add_root(&k, "host", 0);
	struct root *fresh = add_root(&k, digest, now);
	struct root *used = add_root(&k, other, long_ago);
	size_t n_before = scratch_count_fds();
	(void)add_root(&k, "an old one", long_ago);
	busy.root = used;
	k.busy = &busy;
	images_expire(&k);
	CHECK(k.roots == used && used->next == fresh && fresh->next == host && !host->next);
	CHECK_EQ(scratch_count_fds(), n_before);
	k.busy = NULL;
	images_expire(&k);
	CHECK(k.roots == fresh);
	root_free(host);
	root_free(fresh);
}

TESTS(UNIT(a_root_that_is_there_is_used_again), UNIT(an_image_that_is_not_there_is_told),
	UNIT(what_nobody_wants_any_more_is_let_go))
