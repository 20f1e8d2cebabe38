#include "runtime/runtime.h"

#include <string.h>

#include "base/str.h"
#include "lib/test.h"

TEST(every_runtime_is_found_by_its_name)
{
	size_t n = 0;

	for (; runtimes[n]; n++) {
		CHECK(runtimes[n]->name[0] && runtimes[n]->summary[0]);
		CHECK(runtime_find(runtimes[n]->name) == runtimes[n]);
		for (size_t i = 0; i < n; i++)
			CHECK(!streq(runtimes[i]->name, runtimes[n]->name));
	}
	CHECK(n >= 3);
	CHECK(runtime_find("native") == &runtime_native);
	CHECK(runtime_find("Native") == NULL);
	CHECK(runtime_find("") == NULL);
}

/* One that says it is available has everything; one that does not says why. */
TEST(what_is_not_available_says_why)
{
	for (size_t i = 0; runtimes[i]; i++) {
		const struct runtime *r = runtimes[i];
		const char *why = r->probe();

		if (why) {
			CHECK(strstr(why, r->name) == why);
			continue;
		}
		CHECK(r->open && r->close && r->is_up && r->facets && r->instance);
		CHECK(r->start && r->adopt && r->cancel && r->close_stdin && r->release);
		CHECK(r->discard && r->make_workspace && r->drop_workspace);
	}
	CHECK(runtime_native.probe() == NULL);
	CHECK_STR(runtime_docker.probe(), "docker_not_supported");
	CHECK_STR(runtime_firecracker.probe(), "firecracker_not_supported");
}

TESTS(UNIT(every_runtime_is_found_by_its_name), UNIT(what_is_not_available_says_why))
