/* When a template is wanted, and when it is tried again. What one does once it is there is seen
 * by tests/integration/test_warm.py. */
#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/root.h"
#include "keeper/keeper_private.h"
#include "lib/test.h"

static const char library[] = "no library at all";
static struct root root = { .image = "host", .ns_fd = -1, .rootfs_fd = -1 };

/* A keeper that wants one, and whose root can not be entered. */
static struct keeper wanting(void)
{
	return (struct keeper){
		.warm.warmth = WARM_LANGUAGES,
		.host_root = &root,
		.clones.n_max = 1,
		.warm_library = library,
		.warm_library_size = sizeof(library),
		.library_fd = -1,
	};
}

TEST(one_is_wanted_for_languages_of_a_host_alone)
{
	struct keeper k = wanting();

	CHECK(templates_pending(&k));
	CHECK(!templates_ready(&k));
	CHECK_EQ(templates_orders(&k)->n, 0);
	k.warm.warmth = WARM_BOXES;
	CHECK(!templates_pending(&k));
	k = wanting();
	k.host_root = NULL;
	CHECK(!templates_pending(&k));
	k = wanting();
	k.warm_library_size = 0;
	CHECK(!templates_pending(&k));
	k = wanting();
	k.stopping = true;
	CHECK(!templates_pending(&k));
	k = wanting();
	k.clones.n_max = 0;
	CHECK(!templates_pending(&k));
}

TEST(what_fails_is_tried_ever_later)
{
	struct keeper k = wanting();
	uint64_t wanted_ms = 1000;

	for (int i = 0; i < 12; i++) {
		uint64_t before = clock_monotonic_ns();

		templates_fail(&k, "a test says so");
		CHECK_EQ(k.template_retry_ms, wanted_ms);
		CHECK(k.template_not_before_ns >= before + wanted_ms * UINT64_C(1000000));
		wanted_ms = wanted_ms < 150000 ? 2 * wanted_ms : 300000;
	}
	CHECK_EQ(k.template_retry_ms, 300000);
	CHECK(templates_pending(&k));
	templates_dismiss(&k);
	CHECK_EQ(k.template_retry_ms, 0);
	CHECK_EQ(k.template_not_before_ns, 0);
}

TEST(one_that_can_not_be_started_is_not_tried_at_once)
{
	struct keeper k = wanting();

	templates_tend(&k);
	CHECK_EQ(k.template_retry_ms, 1000);
	CHECK(!k.templates);
	CHECK(k.library_fd >= 0);
	templates_tend(&k); /* too early */
	CHECK_EQ(k.template_retry_ms, 1000);
	k.template_not_before_ns = 1;
	templates_tend(&k);
	CHECK_EQ(k.template_retry_ms, 2000);
	CHECK(!k.templates);
	templates_fini(&k);
	CHECK_EQ(k.library_fd, -1);
}

TEST(the_library_can_not_be_changed_any_more)
{
	struct keeper k = wanting();

	templates_tend(&k);
	CHECK(pwrite(k.library_fd, "x", 1, 0) < 0);
	CHECK(ftruncate(k.library_fd, 0) < 0);
	templates_fini(&k);
}

TEST(a_network_without_a_template_is_closed)
{
	struct keeper k = wanting();
	int fd = dup(0);

	CHECK(fd >= 0);
	templates_give_net(&k, 1, fd);
	CHECK(fcntl(fd, F_GETFD) < 0);
}

TESTS(UNIT(one_is_wanted_for_languages_of_a_host_alone), UNIT(what_fails_is_tried_ever_later),
	UNIT(one_that_can_not_be_started_is_not_tried_at_once),
	UNIT(the_library_can_not_be_changed_any_more), UNIT(a_network_without_a_template_is_closed))
