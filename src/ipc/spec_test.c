#include "ipc/spec.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "lib/random.h"
#include "lib/test.h"

/* The limits once more, as the documentation gives them: name, place and range. */
static const struct {
	const char *name;
	size_t offset;
	uint64_t min;
	uint64_t max;
} ranges[] = {
	{ "timeout_ms", offsetof(struct limits, timeout_ms), 1, 604800000 },
	{ "startup_ms", offsetof(struct limits, startup_ms), 1, 3600000 },
	{ "grace_ms", offsetof(struct limits, grace_ms), 0, 600000 },
	{ "memory_bytes", offsetof(struct limits, memory_bytes), 4 << 20, 1ULL << 46 },
	{ "cpu_milli", offsetof(struct limits, cpu_milli), 10, 1024000 },
	{ "pids", offsetof(struct limits, pids), 2, 65536 },
	{ "workspace_bytes", offsetof(struct limits, workspace_bytes), 64 << 10, 1ULL << 46 },
	{ "tmp_bytes", offsetof(struct limits, tmp_bytes), 64 << 10, 1ULL << 46 },
	{ "files", offsetof(struct limits, files), 16, 1 << 20 },
	{ "processes", offsetof(struct limits, processes), 2, 65536 },
	{ "capture_bytes", offsetof(struct limits, capture_bytes), 0, 1ULL << 46 },
};

_Static_assert(sizeof(struct limits) == ARRAY_SIZE(ranges) * sizeof(uint64_t),
	"every limit has its row here");

static uint64_t *limit_of(struct spec *s, size_t i)
{
	return (uint64_t *)((char *)&s->limits + ranges[i].offset);
}

static char **make_strings(size_t n, const char *each)
{
	char **strings = xcalloc(n + 1, sizeof(*strings));

	for (size_t i = 0; i < n; i++)
		strings[i] = xstrdup(each);
	return strings;
}

/* The smallest good one. */
static void make_good(struct spec *s)
{
	spec_init(s);
	spec_make_id(s->id);
	s->argv = make_strings(1, "true");
	s->env = make_strings(1, "A=b");
	s->globs = make_strings(1, "*.png");
	s->cwd = xstrdup("/workspace");
}

#define GOOD(name)                                                                                 \
	CLEANUP(spec_fini) struct spec name;                                                       \
	make_good(&name)

static void check_refused(const struct spec *s, const char *word)
{
	struct err err = { 0 };

	CHECK_EQ(spec_check(s, &err), -EINVAL);
	CHECK_EQ(err.code, -EINVAL);
	if (!strstr(err.text, word))
		fail_msg("'%s' does not tell of '%s'", err.text, word);
}

TEST(the_defaults_are_good)
{
	GOOD(s);
	struct err err = { 0 };

	CHECK_EQ(spec_check(&s, &err), 0);
	CHECK_STR(s.image, "host");
	CHECK_EQ(s.limits.timeout_ms, 60000);
	CHECK_EQ(s.limits.memory_bytes, 1 << 30);
}

TEST(every_limit_out_of_range_is_named)
{
	GOOD(s);

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		uint64_t standard = *limit_of(&s, i);

		*limit_of(&s, i) = ranges[i].min;
		CHECK_EQ(spec_check(&s, NULL), 0);
		*limit_of(&s, i) = ranges[i].max;
		CHECK_EQ(spec_check(&s, NULL), 0);
		*limit_of(&s, i) = ranges[i].max + 1;
		check_refused(&s, ranges[i].name);
		*limit_of(&s, i) = UINT64_MAX;
		check_refused(&s, ranges[i].name);
		if (ranges[i].min > 0) {
			*limit_of(&s, i) = ranges[i].min - 1;
			check_refused(&s, ranges[i].name);
		}
		*limit_of(&s, i) = standard;
	}
}

TEST(ids_are_32_hexadecimal_digits)
{
	GOOD(s);
	GOOD(other);

	CHECK(!streq(s.id, other.id));
	CHECK(str_is_hex(s.id, RUN_ID_SIZE));
	s.id[31] = '\0';
	check_refused(&s, "run id");
	s.id[31] = 'A';
	check_refused(&s, "run id");
	s.id[31] = '/';
	check_refused(&s, "run id");
}

TEST(images_are_the_host_or_a_digest)
{
	static const char *const bad[] = { "", "hos", "host2", "../../etc", "python:3.11",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
		"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef" };
	GOOD(s);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		(void)snprintf(s.image, sizeof(s.image), "%s", bad[i]);
		check_refused(&s, "image");
	}
	(void)snprintf(s.image, sizeof(s.image), "%s",
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
	CHECK_EQ(spec_check(&s, NULL), 0);
}

TEST(a_command_is_needed)
{
	GOOD(s);

	s.argv[0][0] = '\0';
	check_refused(&s, "command");
	free(s.argv[0]);
	s.argv[0] = NULL;
	check_refused(&s, "command");
}

TEST(the_working_directory_is_absolute)
{
	GOOD(s);

	s.cwd[0] = 'x';
	check_refused(&s, "working directory");
	free(s.cwd);
	s.cwd = xcalloc(1, SPEC_CWD_MAX + 2);
	memset(s.cwd, '/', SPEC_CWD_MAX + 1);
	check_refused(&s, "working directory");
	s.cwd[SPEC_CWD_MAX] = '\0';
	CHECK_EQ(spec_check(&s, NULL), 0);
}

TEST(a_secret_in_a_bad_variable_is_not_repeated)
{
	static const char *const bad[] = { "hunter2", "=hunter2" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		GOOD(s);
		struct err err = { 0 };

		free(s.env[0]);
		s.env[0] = xstrdup(bad[i]);
		CHECK_EQ(spec_check(&s, &err), -EINVAL);
		CHECK(strstr(err.text, "entry 1") != NULL);
		CHECK(strstr(err.text, "hunter2") == NULL);
	}
}

TEST(lists_that_no_message_could_carry_are_refused)
{
	static const struct {
		size_t offset;
		size_t max;
		const char *each;
		const char *word;
	} lists[] = {
		{ offsetof(struct spec, argv), SPEC_STRINGS_MAX, "x", "argument" },
		{ offsetof(struct spec, env), SPEC_STRINGS_MAX, "A=b", "variable" },
		{ offsetof(struct spec, globs), SPEC_GLOBS_MAX, "*", "capture pattern" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		GOOD(s);
		char ***list = (char ***)((char *)&s + lists[i].offset);

		free((*list)[0]);
		free(*list);
		*list = make_strings(lists[i].max + 1, lists[i].each);
		check_refused(&s, lists[i].word);
		free((*list)[lists[i].max]);
		(*list)[lists[i].max] = NULL;
		CHECK_EQ(spec_check(&s, NULL), 0);
		free((*list)[0]);
		(*list)[0] = xcalloc(1, SPEC_STRING_MAX + 2);
		memset((*list)[0], '=', SPEC_STRING_MAX + 1);
		(*list)[0][0] = 'A';
		check_refused(&s, lists[i].word);
		(*list)[0][SPEC_STRING_MAX] = '\0';
		CHECK_EQ(spec_check(&s, NULL), 0);
	}
}

TEST(an_empty_pattern_is_refused)
{
	GOOD(s);

	s.globs[0][0] = '\0';
	check_refused(&s, "capture pattern 1");
}

TEST(files_are_listed_and_nothing_else_happens)
{
	GOOD(s);

	s.digests = true;
	check_refused(&s, "not listed");
	s.digests = false;
	s.lists = true;
	CHECK_EQ(spec_check(&s, NULL), 0); /* a guest may run before that */
	free(s.argv[0]);
	s.argv[0] = NULL;
	s.deed = DEED_LIST;
	check_refused(&s, "only their names");
	free(s.globs[0]);
	s.globs[0] = NULL;
	CHECK_EQ(spec_check(&s, NULL), 0);
	s.takes_files = true;
	check_refused(&s, "only their names");
	s.takes_files = false;
	s.lists = false;
	check_refused(&s, "or none");
	s.deed = DEED_FILES;
	CHECK_EQ(spec_check(&s, NULL), 0);
	s.lists = true;
	check_refused(&s, "only files are wanted");
}

TEST(one_file_is_fetched_by_a_clean_path_and_nothing_else_happens)
{
	static const char *const bad[] = { "/etc/passwd", "../x", "a//b", "a/", "." };
	GOOD(s);

	free(s.argv[0]);
	s.argv[0] = NULL;
	s.deed = DEED_FETCH;
	CHECK_EQ(spec_check(&s, NULL), 0);
	s.takes_files = true;
	check_refused(&s, "more than one file");
	s.takes_files = false;
	s.clears = true;
	check_refused(&s, "more than one file");
	s.clears = false;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		free(s.globs[0]);
		s.globs[0] = xstrdup(bad[i]);
		check_refused(&s, "more than one file");
	}
	free(s.globs[0]);
	s.globs[0] = NULL;
	check_refused(&s, "more than one file");
}

TEST(a_change_is_for_the_files_of_a_session)
{
	GOOD(s);
	CLEANUP(spec_fini) struct spec got;
	struct put p;
	struct cur c;

	memcpy(s.workspace, s.id, sizeof(s.workspace));
	memcpy(s.change, "0123456789abcdef", sizeof(s.change));
	check_refused(&s, "a change where no files");
	free(s.argv[0]);
	s.argv[0] = NULL;
	s.deed = DEED_FILES;
	CHECK_EQ(spec_check(&s, NULL), 0);
	put_init(&p, SPEC_SIZE_MAX);
	spec_put(&s, &p);
	cur_init(&c, p.data, p.size);
	spec_get(&got, &c);
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(got.change, s.change);
	put_fini(&p);
	s.change[3] = 'g';
	check_refused(&s, "the change is not 16");
	s.change[3] = '3';
	s.workspace[0] = '\0';
	check_refused(&s, "a change where no files");
}

static char **random_strings(uint64_t *seed, size_t max, const char *prefix)
{
	size_t n = random_below(seed, max + 1);
	char **strings = make_strings(n, "");

	for (size_t i = 0; i < n; i++) {
		size_t used = strlen(prefix);
		size_t size = random_below(seed, 60);

		free(strings[i]);
		strings[i] = xcalloc(1, used + size + 1);
		memcpy(strings[i], prefix, used);
		for (size_t j = 0; j < size; j++)
			strings[i][used + j] = (char)random_between(seed, 1, 255);
	}
	return strings;
}

static void make_random(struct spec *s, uint64_t *seed)
{
	spec_init(s);
	spec_make_id(s->id);
	s->argv = random_strings(seed, 10, "prog");
	if (!s->argv[0]) {
		free(s->argv);
		s->argv = make_strings(1, "x");
	}
	s->env = random_strings(seed, 10, "N=");
	s->globs = random_strings(seed, 5, "g");
	s->cwd = xstrdup(random_below(seed, 2) ? "/workspace" : "/tmp/ä");
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		*limit_of(s, i) = random_between(seed, ranges[i].min, ranges[i].max);
	s->require = random_next(seed) & FACET_ALL;
	s->tty = random_below(seed, 2);
	s->rows = (uint16_t)random_next(seed);
	s->columns = (uint16_t)random_next(seed);
	s->takes_files = random_below(seed, 2);
	s->lingers = random_below(seed, 2);
}

static void check_same_strings(char *const *a, char *const *b)
{
	size_t i = 0;

	for (; a[i] && b[i]; i++)
		CHECK_STR(a[i], b[i]);
	CHECK(!a[i] && !b[i]);
}

TEST(a_spec_survives_the_wire)
{
	uint64_t seed = 1;

	for (int i = 0; i < 300; i++) {
		CLEANUP(spec_fini) struct spec sent;
		CLEANUP(spec_fini) struct spec got;
		struct put p;
		struct cur c;

		make_random(&sent, &seed);
		CHECK_EQ(spec_check(&sent, NULL), 0);
		put_init(&p, SPEC_SIZE_MAX);
		spec_put(&sent, &p);
		CHECK_EQ(put_end(&p), 0);
		cur_init(&c, p.data, p.size);
		spec_get(&got, &c);
		CHECK_EQ(cur_end(&c), 0);
		CHECK_EQ(spec_check(&got, NULL), 0);
		CHECK_STR(got.id, sent.id);
		CHECK_STR(got.image, sent.image);
		check_same_strings(got.argv, sent.argv);
		check_same_strings(got.env, sent.env);
		check_same_strings(got.globs, sent.globs);
		CHECK_STR(got.cwd, sent.cwd);
		CHECK_MEM(&got.limits, &sent.limits, sizeof(got.limits));
		CHECK(got.require == sent.require && got.tty == sent.tty);
		CHECK(got.rows == sent.rows && got.columns == sent.columns);
		CHECK(got.takes_files == sent.takes_files && got.lingers == sent.lingers);
		put_fini(&p);
	}
}

/* Leaks of what was read up to there are found by the sanitizers. */
TEST(every_prefix_of_a_spec_is_refused)
{
	uint64_t seed = 7;
	CLEANUP(spec_fini) struct spec sent;
	struct put p;

	make_random(&sent, &seed);
	put_init(&p, SPEC_SIZE_MAX);
	spec_put(&sent, &p);
	for (size_t n = 0; n < p.size; n++) {
		CLEANUP(spec_fini) struct spec got;
		struct cur c;

		cur_init(&c, p.data, n);
		spec_get(&got, &c);
		CHECK_EQ(cur_end(&c), -EBADMSG);
	}
	put_fini(&p);
}

TEST(a_bool_is_0_or_1_and_unknown_facets_are_refused)
{
	GOOD(s);
	struct put p;
	struct cur c;
	CLEANUP(spec_fini) struct spec lingers = { 0 };
	CLEANUP(spec_fini) struct spec requires = { 0 };

	put_init(&p, SPEC_SIZE_MAX);
	spec_put(&s, &p);
	p.data[p.size - 1] = 2;
	cur_init(&c, p.data, p.size);
	spec_get(&lingers, &c);
	CHECK_EQ(cur_end(&c), -EBADMSG);
	put_fini(&p);
	s.require = FACET_ALL + 1;
	put_init(&p, SPEC_SIZE_MAX);
	spec_put(&s, &p);
	cur_init(&c, p.data, p.size);
	spec_get(&requires, &c);
	CHECK_EQ(cur_end(&c), -EBADMSG);
	put_fini(&p);
}

TEST(facets_are_listed_by_name)
{
	struct err err = { 0 };
	uint64_t mask = 77;

	CHECK_EQ(facet_parse_list("memory,cpu", &mask, &err), 0);
	CHECK_EQ(mask, FACET_BIT(FACET_MEMORY) | FACET_BIT(FACET_CPU));
	CHECK_EQ(facet_parse_list("all", &mask, &err), 0);
	CHECK_EQ(mask, FACET_ALL);
	CHECK_EQ(facet_parse_list("pids,memroy,cpu", &mask, &err), -EINVAL);
	CHECK(strstr(err.text, "'memroy'") && strstr(err.text, "did you mean 'memory'?"));
	CHECK_EQ(mask, FACET_ALL);
	CHECK_EQ(facet_parse_list("", &mask, &err), -EINVAL);
	CHECK_EQ(facet_parse_list("memory,", &mask, &err), -EINVAL);
	CHECK_EQ(facet_parse_list("memoryx", &mask, &err), -EINVAL);
	for (int f = 0; f < FACET_COUNT; f++) {
		CHECK_EQ(facet_parse_list(facet_name((enum facet)f), &mask, &err), 0);
		CHECK(mask == FACET_BIT(f));
	}
}

TEST(plain_is_what_needs_no_box_of_its_own)
{
	struct spec s;

	spec_init(&s);
	CHECK(spec_is_plain(&s));
	s.limits.memory_bytes /= 2; /* is set from outside */
	CHECK(spec_is_plain(&s));
	s.exec = true; /* for which there are boxes too */
	CHECK(spec_is_plain(&s));
	s.tty = true;
	CHECK(!spec_is_plain(&s));
	s.tty = false;
	s.workspace[0] = 'a';
	CHECK(!spec_is_plain(&s));
	s.workspace[0] = '\0';
	s.limits.tmp_bytes++;
	CHECK(!spec_is_plain(&s));
	s.limits.tmp_bytes--;
	s.limits.workspace_bytes++;
	CHECK(!spec_is_plain(&s));
}

TESTS(UNIT(plain_is_what_needs_no_box_of_its_own), UNIT(the_defaults_are_good),
	UNIT(every_limit_out_of_range_is_named), UNIT(ids_are_32_hexadecimal_digits),
	UNIT(images_are_the_host_or_a_digest), UNIT(a_command_is_needed),
	UNIT(the_working_directory_is_absolute), UNIT(a_secret_in_a_bad_variable_is_not_repeated),
	UNIT(lists_that_no_message_could_carry_are_refused), UNIT(an_empty_pattern_is_refused),
	UNIT(files_are_listed_and_nothing_else_happens),
	UNIT(one_file_is_fetched_by_a_clean_path_and_nothing_else_happens),
	UNIT(a_change_is_for_the_files_of_a_session), UNIT(a_spec_survives_the_wire),
	UNIT(every_prefix_of_a_spec_is_refused),
	UNIT(a_bool_is_0_or_1_and_unknown_facets_are_refused), UNIT(facets_are_listed_by_name))
