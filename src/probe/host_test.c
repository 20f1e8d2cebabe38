#include "probe/host.h"

#include <string.h>

#include "lib/test.h"

TEST(a_detail_is_printable_whatever_it_is_made_from)
{
	struct finding f = { 0 };

	finding_set(&f, PROBE_PARTIAL, "%s", "a\033[31m\nb\xff\x7f~");
	CHECK_EQ(f.state, PROBE_PARTIAL);
	CHECK_STR(f.detail, "a?[31m?b??~");
}

TEST(a_detail_that_is_too_long_is_cut)
{
	struct finding f = { 0 };

	finding_set(&f, PROBE_OK, "%0*d", PROBE_DETAIL_MAX * 2, 7);
	CHECK_EQ(strlen(f.detail), PROBE_DETAIL_MAX - 1);
}

TEST(a_host_knows_its_user_and_kernel)
{
	struct host h;

	host_open(&h);
	CHECK_EQ(h.uid, geteuid());
	CHECK(h.uts.release[0]);
	CHECK(h.mounts_error < 0 || h.mounts.n > 0);
	CHECK((h.user_error == 0) == (h.namespaces != 0));
	CHECK(h.user_error == 0 || h.user_text[0]);
	host_fini(&h);
}

TESTS(UNIT(a_detail_is_printable_whatever_it_is_made_from), UNIT(a_detail_that_is_too_long_is_cut),
	UNIT(a_host_knows_its_user_and_kernel))
