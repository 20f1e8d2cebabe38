#include "probe/science.h"

#include <string.h>

#include "lib/test.h"

TEST(what_is_missing_is_what_to_install)
{
	char fix[256];

	CHECK(science_format_fix("numpy seaborn\n", fix, sizeof(fix)));
	CHECK_STR(fix, "sudo apt install python3-numpy python3-seaborn");
	CHECK(science_format_fix("reportlab", fix, sizeof(fix)));
	CHECK_STR(fix, "sudo apt install python3-reportlab");
	CHECK(!science_format_fix("", fix, sizeof(fix)));
	CHECK(!science_format_fix("numpyx xpandas; rm", fix, sizeof(fix)));
}

TEST(the_host_is_asked)
{
	struct finding f = { 0 };

	science_probe(NULL, NULL, &f);
	print_message("%s\n", f.detail);
	CHECK(f.state != PROBE_UNKNOWN);
	CHECK_EQ(f.state == PROBE_PARTIAL, f.fix != NULL);
}

TESTS(UNIT(what_is_missing_is_what_to_install), UNIT(the_host_is_asked))
