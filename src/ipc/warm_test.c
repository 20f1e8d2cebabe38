#include "ipc/warm.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "lib/test.h"

TEST(names_of_modules_are_checked)
{
	static const char *const good[] = { "", "numpy", "numpy,pandas", "matplotlib.pyplot,a_1" };
	static const char *const bad[] = { ",", "numpy,", ",numpy", "a,,b", "a.", ".a", "a..b",
		"1a", "a b", "os;x", "a/b", "-a" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_EQ(warm_check_imports(good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(warm_check_imports(bad[i], NULL), -EINVAL);
}

TEST(there_are_only_so_many_names)
{
	char text[WARM_IMPORTS_MAX + 2];

	memset(text, 'a', sizeof(text));
	text[WARM_IMPORTS_MAX + 1] = '\0';
	CHECK_EQ(warm_check_imports(text, NULL), -EINVAL);
	text[WARM_IMPORTS_MAX] = '\0';
	CHECK_EQ(warm_check_imports(text, NULL), 0);
}

static int back_and_forth(const struct warm *from, struct warm *to)
{
	struct put p;
	struct cur c;

	put_init(&p, 4096);
	warm_put(from, &p);
	cur_init(&c, p.data, p.size);
	warm_get(to, &c);
	int r = cur_end(&c);
	put_fini(&p);
	return r;
}

TEST(what_is_wanted_survives_the_wire)
{
	struct warm w = { WARM_LANGUAGES, 1 << 20, "numpy" };
	struct warm got;

	CHECK_EQ(back_and_forth(&w, &got), 0);
	CHECK_EQ(got.warmth, WARM_LANGUAGES);
	CHECK_EQ(got.memory_bytes, 1 << 20);
	CHECK(streq(got.imports, "numpy"));
	w.warmth = WARM_COUNT;
	CHECK_EQ(back_and_forth(&w, &got), -EBADMSG);
	w = (struct warm){ WARM_OFF, 0, "not a name" };
	CHECK_EQ(back_and_forth(&w, &got), -EBADMSG);
}

TEST(how_it_stands_survives_the_wire)
{
	struct warm_state s = { { 1, 2, 3, 4, 5, 6 }, { 13, 14, 15, 16, 17, 18 },
		{ 7, 8, 9, 10, 11, 12 } };
	struct warm_state got;
	struct put p;
	struct cur c;

	put_init(&p, 4096);
	warm_state_put(&s, &p);
	cur_init(&c, p.data, p.size);
	warm_state_get(&got, &c);
	CHECK_EQ(cur_end(&c), 0);
	CHECK_MEM(&got.boxes, &s.boxes, sizeof(s.boxes));
	CHECK_MEM(&got.imported, &s.imported, sizeof(s.imported));
	CHECK_MEM(&got.clones, &s.clones, sizeof(s.clones));
	CHECK(warm_state_is_same(&s, &got));
	got.clones.made_us++;
	CHECK(!warm_state_is_same(&s, &got));
	for (size_t n = 0; n < p.size; n++) {
		cur_init(&c, p.data, n);
		warm_state_get(&got, &c);
		CHECK_EQ(cur_end(&c), -EBADMSG);
	}
	put_fini(&p);
}

TESTS(UNIT(names_of_modules_are_checked), UNIT(there_are_only_so_many_names),
	UNIT(what_is_wanted_survives_the_wire), UNIT(how_it_stands_survives_the_wire))
