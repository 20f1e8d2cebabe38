#include "image/plan.h"

#include <errno.h>

#include "base/err.h"
#include "image/sample.h"
#include "lib/test.h"

static const struct sample_entry entries[] = { { "a", S_IFREG | 0644, "a" }, { 0 } };

TEST(a_layout_becomes_a_plan)
{
	SAMPLE_DIR(d);
	CLEANUP(plan_freep) struct plan *plan = NULL;
	char hex[DIGEST_HEX_SIZE + 1];

	sample_layout(&d, entries, hex);
	CHECK_EQ(plan_make(d.fd, NULL, &plan, NULL), 0);
	CHECK_STR(plan->hex, hex);
	CHECK_STR(plan->format, "oci");
	CHECK_EQ(plan->n_layers, 1);
	CHECK_STR(plan->layers[0].digests.blob, plan->layers[0].digests.plain);
	CHECK_EQ(json_array_size(plan->names), 0);
}

TEST(a_changed_blob_is_damage)
{
	SAMPLE_DIR(d);
	struct plan *plan = NULL;
	char hex[DIGEST_HEX_SIZE + 1];
	char name[DIGEST_HEX_SIZE + 32];
	struct err err = { 0 };

	sample_layout(&d, entries, hex);
	(void)snprintf(name, sizeof(name), "blobs/sha256/%s", hex);
	AUTO_FD fd = openat(d.fd, name, O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, " ", 1, 0), 1);
	CHECK_EQ(plan_make(d.fd, NULL, &plan, &err), -EBADMSG);
	CHECK(strstr(err.text, "the configuration is damaged: its digest"));
	CHECK_EQ(ftruncate(fd, 5), 0);
	CHECK_EQ(plan_make(d.fd, NULL, &plan, &err), -EBADMSG);
	CHECK(strstr(err.text, "it has 5 bytes"));
	CHECK_EQ(unlinkat(d.fd, name, 0), 0);
	CHECK_EQ(plan_make(d.fd, NULL, &plan, &err), -ENOENT);
	CHECK(plan == NULL);
}

TEST(a_directory_without_documents_is_no_image)
{
	SAMPLE_DIR(d);
	struct plan *plan = NULL;
	struct err err = { 0 };

	CHECK_EQ(plan_make(d.fd, NULL, &plan, &err), -EINVAL);
	CHECK(strstr(err.text, "neither an OCI layout nor a docker archive"));
}

TESTS(UNIT(a_layout_becomes_a_plan), UNIT(a_changed_blob_is_damage),
	UNIT(a_directory_without_documents_is_no_image))
