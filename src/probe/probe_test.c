#include "probe/probe.h"

#include <string.h>

#include "base/str.h"
#include "ipc/spec.h"
#include "lib/test.h"

/* What is left of a line of the table for advice. */
#define ADVICE_WIDTH 79

TEST(every_row_is_whole_and_its_name_its_own)
{
	for (size_t i = 0; i < probe_count; i++) {
		const struct probe *p = &probes[i];

		CHECK(p->name && p->group && p->run && p->means && p->fix);
		CHECK((p->facets & ~FACET_ALL) == 0);
		for (size_t j = 0; j < i; j++)
			CHECK(!streq(p->name, probes[j].name));
	}
}

/* A command that is broken in two can not be copied. */
TEST(lines_of_a_fix_that_has_lines_fit)
{
	for (size_t i = 0; i < probe_count; i++) {
		const char *fix = probes[i].fix;

		for (const char *line = fix; strchr(fix, '\n') && *line;) {
			size_t n = strcspn(line, "\n");

			CHECK(n <= ADVICE_WIDTH);
			line += n + (line[n] == '\n');
		}
	}
}

TEST(rows_of_a_group_stand_together)
{
	for (size_t i = 1; i < probe_count; i++) {
		if (streq(probes[i].group, probes[i - 1].group))
			continue;
		for (size_t j = 0; j + 1 < i; j++)
			CHECK(!streq(probes[i].group, probes[j].group));
	}
}

/* Facets the host has no part in are enforced by us alone. */
TEST(every_facet_that_a_host_can_lack_has_a_row)
{
	uint64_t seen = FACET_BIT(FACET_TIMEOUT);

	for (size_t i = 0; i < probe_count; i++)
		seen |= probes[i].facets;
	CHECK(seen == FACET_ALL);
}

TEST(a_checkup_answers_every_row_and_the_verdict_follows)
{
	struct checkup *c = xnew(struct checkup);
	bool can_run = true;
	uint64_t lost = 0;

	probe_all(c);
	CHECK_EQ(c->n, probe_count);
	for (size_t i = 0; i < c->n; i++) {
		const struct finding *f = &c->findings[i];

		CHECK(f->detail[0]);
		CHECK(!streq(f->detail, "not found out"));
		if (f->state == PROBE_OK || f->state == PROBE_PARTIAL)
			continue;
		lost |= probes[i].facets;
		can_run &= probes[i].severity != PROBE_REQUIRED;
	}
	CHECK_EQ(c->can_run, can_run);
	CHECK(c->not_enforced == lost);
	free(c);
}

TESTS(UNIT(every_row_is_whole_and_its_name_its_own), UNIT(lines_of_a_fix_that_has_lines_fit),
	UNIT(rows_of_a_group_stand_together), UNIT(every_facet_that_a_host_can_lack_has_a_row),
	UNIT(a_checkup_answers_every_row_and_the_verdict_follows))
