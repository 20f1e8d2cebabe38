#include "box/sample.h"

#include <fcntl.h>

#include "ipc/result.h"
#include "lib/test.h"

TEST(nothing_is_known_before_the_first_look)
{
	struct sample s;

	sample_init(&s);
	CHECK(s.open_files == USAGE_UNKNOWN);
	CHECK(s.processes == USAGE_UNKNOWN);
	CHECK(sample_wait_ms(&s) > 0);
}

TEST(looks_become_rarer)
{
	struct sample s;
	int last = 0;

	sample_init(&s);
	for (int i = 0; i < 10; i++) {
		CHECK(s.wait_ms >= last && sample_wait_ms(&s) <= s.wait_ms);
		last = s.wait_ms;
		sample_take(&s);
	}
	CHECK_EQ(last, 1000);
}

TEST(it_is_time_when_it_is_whatever_happens_meanwhile)
{
	struct sample s;

	sample_init(&s);
	for (int i = 0; i < 1000 && sample_wait_ms(&s) > 0; i++)
		(void)usleep(1000);
	CHECK_EQ(sample_wait_ms(&s), 0);
	sample_take(&s);
	CHECK(sample_wait_ms(&s) > 0);
}

TEST(the_most_is_kept)
{
	struct sample s;
	int fds[50];

	sample_init(&s);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sample_take(&s);
	CHECK(s.processes != USAGE_UNKNOWN && s.processes >= 1);
	uint64_t most = s.open_files;
	CHECK(most != USAGE_UNKNOWN);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
	sample_take(&s);
	CHECK(s.open_files >= most);
}

TESTS(UNIT(nothing_is_known_before_the_first_look), UNIT(looks_become_rarer),
	UNIT(it_is_time_when_it_is_whatever_happens_meanwhile), UNIT(the_most_is_kept))
