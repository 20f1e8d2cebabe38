#include "probe/science.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/scratch.h"
#include "lib/test.h"
#include "probe/spawn.h"

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

TEST(an_empty_directory_is_no_module)
{
	SCRATCH(dir);
	char first[512];
	struct spawn s = { 0 };
	const char *argv[] = { "/usr/bin/python3", "-c", first, "json", "empty", "none", NULL };

	if (access(argv[0], X_OK) < 0)
		SKIP("there is no /usr/bin/python3");
	CHECK_EQ(mkdirat(dir.fd, "empty", 0755), 0);
	(void)snprintf(first, sizeof(first), "import sys; sys.path.insert(0, '%s'); %s", dir.path,
		science_script);
	CHECK_EQ(spawn_start(&s, argv, 20000), 0);
	CHECK_EQ(spawn_finish(&s), 0);
	CHECK_STR(s.output, "empty none\n");
}

TEST(the_host_is_asked)
{
	struct finding f = { 0 };

	science_probe(NULL, NULL, &f);
	print_message("%s\n", f.detail);
	CHECK(f.state != PROBE_UNKNOWN);
	CHECK_EQ(f.state == PROBE_PARTIAL, f.fix != NULL);
}

TESTS(UNIT(what_is_missing_is_what_to_install), UNIT(an_empty_directory_is_no_module),
	UNIT(the_host_is_asked))
