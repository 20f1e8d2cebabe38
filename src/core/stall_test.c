#include "core/stall.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/metrics.h"
#include "lib/test.h"

static void check_text(const struct metrics *m, const char *line)
{
	AUTO_FREE char *text = metrics_text(m);

	CHECK(strstr(text, line) != NULL);
}

static void check_json(const struct stall *s, const char *member, bool is_there)
{
	json_t *o = stall_json(s);

	CHECK(json_object_get(o, member) != NULL);
	CHECK_EQ(json_is_object(json_object_get(o, member)), is_there);
	json_decref(o);
}

TEST(one_that_lasts_is_counted_once_and_then_is_the_last)
{
	struct metrics *m = metrics_new();
	struct stall s = { .loop = "keeper" };

	check_json(&s, "stall", false);
	check_json(&s, "last_stall", false);
	stall_begin(&s, m, clock_monotonic_ns() - 3000000000u);
	check_json(&s, "stall", true);
	check_text(m, "\nsandbox_loop_stalls_total{loop=\"keeper\"} 1\n");
	check_text(m, "\nsandbox_loop_stalled_seconds{loop=\"keeper\"} 3");
	stall_end(&s, m, 4500, "drop_workspace");
	check_json(&s, "stall", false);
	check_json(&s, "last_stall", true);
	check_text(m, "\nsandbox_loop_stalls_total{loop=\"keeper\"} 1\n");
	check_text(m, "\nsandbox_loop_stall_seconds_total{loop=\"keeper\"} 4.5\n");
	check_text(m, "\nsandbox_loop_stalled_seconds{loop=\"keeper\"} 0\n");
	metrics_free(m);
}

TEST(one_that_is_noticed_afterwards_counts_as_well)
{
	struct metrics *m = metrics_new();
	struct stall s = { .loop = "server" };

	stall_end(&s, m, 2500, "the clock");
	stall_end(&s, m, 2500, "the clock");
	check_text(m, "\nsandbox_loop_stalls_total{loop=\"server\"} 2\n");
	check_text(m, "\nsandbox_loop_stall_seconds_total{loop=\"server\"} 5\n");
	CHECK_STR(s.step, "the clock");
	metrics_free(m);
}

TESTS(UNIT(one_that_lasts_is_counted_once_and_then_is_the_last),
	UNIT(one_that_is_noticed_afterwards_counts_as_well))
