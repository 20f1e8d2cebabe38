#include "ipc/pack.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "ipc/sample.h"
#include "lib/random.h"
#include "lib/test.h"

/* Writes down what it is told, and can fail on demand. */
struct recorder {
	struct pack_sink sink;
	struct put log;
	int n_calls;
	int fail_at; /* the call that fails; 0 for none */
};

static int count_call(struct recorder *r, struct err *err)
{
	return ++r->n_calls == r->fail_at ? err_set(err, -ENOSPC, "full") : 0;
}

static int on_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct recorder *r = (struct recorder *)sink;
	char line[64];

	(void)snprintf(line, sizeof(line), "%c %.20s %o %llu:", e->kind, e->name, e->mode,
		(unsigned long long)e->size);
	put_bytes(&r->log, line, strlen(line));
	return count_call(r, err);
}

static int on_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	struct recorder *r = (struct recorder *)sink;

	put_bytes(&r->log, data, size);
	return count_call(r, err);
}

static int on_finish(struct pack_sink *sink, struct err *err)
{
	struct recorder *r = (struct recorder *)sink;

	put_bytes(&r->log, "|", 1);
	return count_call(r, err);
}

static void recorder_init(struct recorder *r)
{
	*r = (struct recorder){ .sink = { on_begin, on_data, on_finish } };
	put_init(&r->log, SAMPLE_MAX);
}

static void recorder_fini(struct recorder *r)
{
	put_fini(&r->log);
}

#define RECORDER(name)                                                                             \
	CLEANUP(recorder_fini) struct recorder name;                                               \
	recorder_init(&name)

/* Feed all of it in one go; the reader's verdict, or the end's. */
static int read_stream(const struct sample *s, struct recorder *r, struct err *err)
{
	static struct pack_reader reader;

	pack_reader_init(&reader, &r->sink);
	int result = pack_feed(&reader, s->out.data, s->out.size, err);
	return result < 0 ? result : pack_end(&reader, err);
}

static void fill(struct sample *s)
{
	sample_dir(s, "d", 0755);
	sample_file(s, "d/f", "hello");
	sample_file(s, "empty", "");
	sample_link(s, "l", "d/f");
	sample_head(s, PACK_SKIP, "big", 0, 1 << 30);
	sample_end(s);
}

static const char filled[] =
	"D d 755 0:|F d/f 644 5:hello|F empty 644 0:|L l 777 3:d/f|S big 0 1073741824:|";

TEST(a_stream_is_told_entry_by_entry)
{
	SAMPLE(s);
	RECORDER(r);
	struct err err = { 0 };

	fill(&s);
	CHECK_EQ(read_stream(&s, &r, &err), 0);
	CHECK_EQ(r.log.size, strlen(filled));
	CHECK_MEM(r.log.data, filled, r.log.size);
}

TEST(it_does_not_matter_how_the_bytes_come)
{
	static struct pack_reader reader;
	SAMPLE(s);
	uint64_t seed = 1;

	fill(&s);
	for (int round = 0; round < 200; round++) {
		RECORDER(r);
		size_t most = round == 0 ? 1 : random_between(&seed, 1, 30);

		pack_reader_init(&reader, &r.sink);
		for (size_t at = 0; at < s.out.size;) {
			size_t n = random_between(&seed, 1, most);

			n = n < s.out.size - at ? n : s.out.size - at;
			CHECK_EQ(pack_feed(&reader, s.out.data + at, n, NULL), 0);
			at += n;
			CHECK_EQ(pack_end(&reader, NULL), at == s.out.size ? 0 : -EBADMSG);
		}
		CHECK_EQ(r.log.size, strlen(filled));
		CHECK_MEM(r.log.data, filled, r.log.size);
	}
}

TEST(names_are_clean_or_refused)
{
	static const char *const good[] = { "a", "a/b", "...", ".a", "a.", "..a", " ", "-", "a\\b",
		"a\nb", "ä", "~", "a:b", "*" };
	static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.",
		"a/./b", "../a", "a/..", "a/../b", "//" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(pack_name_is_clean(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		SAMPLE(s);
		RECORDER(r);

		CHECK(!pack_name_is_clean(bad[i]));
		sample_file(&s, bad[i], "x");
		sample_end(&s);
		CHECK_EQ(read_stream(&s, &r, NULL), -EBADMSG);
		CHECK_EQ(r.n_calls, 0);
	}
}

TEST(names_have_limits)
{
	char name[PACK_NAME_MAX + 2];

	memset(name, 'a', sizeof(name));
	name[255] = '\0';
	CHECK(pack_name_is_clean(name));
	name[255] = 'a';
	name[256] = '\0';
	CHECK(!pack_name_is_clean(name));
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 2 ? '/' : 'a';
	name[2 * PACK_DEPTH_MAX - 1] = '\0';
	CHECK(pack_name_is_clean(name));
	name[2 * PACK_DEPTH_MAX - 1] = '/';
	name[2 * PACK_DEPTH_MAX + 1] = '\0';
	CHECK(!pack_name_is_clean(name));
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 100 == 99 ? '/' : 'a';
	name[PACK_NAME_MAX] = '\0';
	CHECK(pack_name_is_clean(name));
	name[PACK_NAME_MAX] = 'a';
	name[PACK_NAME_MAX + 1] = '\0';
	CHECK(!pack_name_is_clean(name));
}

TEST(a_nul_in_a_name_is_refused)
{
	SAMPLE(s);
	RECORDER(r);

	sample_file(&s, "a/../b", "x");
	sample_end(&s);
	s.out.data[PACK_HEAD_SIZE + 1] = '\0';
	CHECK_EQ(read_stream(&s, &r, NULL), -EBADMSG);
	CHECK_EQ(r.n_calls, 0);
}

/* Where in the head to put which byte, to make it a bad one. */
TEST(bad_heads_are_refused_before_the_sink_hears_of_them)
{
	static const struct {
		size_t at;
		uint8_t byte;
	} breaks[] = {
		{ 0, 'X' },
		{ 0, 0 },
		{ 0, 'E' },  /* an end with a name */
		{ 5, 0 },    /* a file without one */
		{ 6, 0x10 }, /* a name of 4099 bytes */
		{ 8, 0xff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(breaks); i++) {
		SAMPLE(s);
		RECORDER(r);

		sample_file(&s, "abc", "x");
		sample_end(&s);
		s.out.data[breaks[i].at] = breaks[i].byte;
		CHECK_EQ(read_stream(&s, &r, NULL), -EBADMSG);
		CHECK_EQ(r.n_calls, 0);
	}
}

TEST(modes_carry_no_more_than_permissions)
{
	SAMPLE(s);
	RECORDER(r);

	sample_head(&s, PACK_FILE, "suid", 0xffffffff, 0);
	sample_end(&s);
	CHECK_EQ(read_stream(&s, &r, NULL), 0);
	CHECK_MEM(r.log.data, "F suid 777 0:|", r.log.size);
}

TEST(a_link_has_a_longest_target)
{
	SAMPLE(s);
	RECORDER(r);

	sample_head(&s, PACK_LINK, "l", 0777, PACK_NAME_MAX + 1);
	CHECK_EQ(read_stream(&s, &r, NULL), -EBADMSG);
	CHECK_EQ(r.n_calls, 0);
}

TEST(a_time_is_no_entry_and_belongs_to_one)
{
	SAMPLE(good);
	SAMPLE(many);
	SAMPLE(wrong);
	RECORDER(r);

	sample_file(&good, "a", "x");
	sample_head(&good, PACK_TIME, "a", 999999999, UINT64_MAX);
	sample_end(&good);
	CHECK_EQ(read_stream(&good, &r, NULL), 0);
	sample_file(&many, "a", "x");
	sample_head(&many, PACK_TIME, "a", 0, 0);
	sample_head(&many, PACK_TIME, "a", 0, 0);
	CHECK_EQ(read_stream(&many, &r, NULL), -EBADMSG);
	sample_file(&wrong, "a", "x");
	sample_head(&wrong, PACK_TIME, "a", 1000000000, 0);
	CHECK_EQ(read_stream(&wrong, &r, NULL), -EBADMSG);
}

TEST(the_end_counts_and_is_the_end)
{
	SAMPLE(missing);
	SAMPLE(behind);
	RECORDER(r);

	sample_file(&missing, "a", "x");
	sample_head(&missing, PACK_END, "", 0, 2);
	CHECK_EQ(read_stream(&missing, &r, NULL), -EBADMSG);
	sample_end(&behind);
	put_u8(&behind.out, 'F');
	CHECK_EQ(read_stream(&behind, &r, NULL), -EBADMSG);
}

TEST(there_are_not_too_many_entries)
{
	static struct pack_reader reader;
	SAMPLE(s);
	RECORDER(r);
	struct err err = { 0 };

	sample_dir(&s, "d", 0755);
	pack_reader_init(&reader, &r.sink);
	reader.n_entries = PACK_ENTRIES_MAX - 1;
	CHECK_EQ(pack_feed(&reader, s.out.data, s.out.size, &err), 0);
	CHECK_EQ(pack_feed(&reader, s.out.data, s.out.size, &err), -E2BIG);
	CHECK(strstr(err.text, "100000") != NULL);
}

TEST(what_the_sink_says_is_passed_on_and_final)
{
	SAMPLE(s);

	fill(&s);
	for (int fail_at = 1; fail_at <= 12; fail_at++) {
		static struct pack_reader reader;
		RECORDER(r);
		struct err err = { 0 };

		r.fail_at = fail_at;
		pack_reader_init(&reader, &r.sink);
		CHECK_EQ(pack_feed(&reader, s.out.data, s.out.size, &err), -ENOSPC);
		CHECK_STR(err.text, "full");
		CHECK_EQ(pack_feed(&reader, s.out.data, s.out.size, &err), -ENOSPC);
		CHECK_EQ(r.n_calls, fail_at);
		CHECK_EQ(pack_end(&reader, &err), -EBADMSG);
	}
}

/* A reader that failed at a head must not go on with what the head announced. */
TEST(a_reader_that_failed_reads_no_more)
{
	static struct pack_reader reader;
	static uint8_t much[3 * PACK_NAME_MAX];
	SAMPLE(s);
	RECORDER(r);

	sample_file(&s, "abc", "x");
	s.out.data[8] = 0x7f; /* a name of two gigabytes */
	pack_reader_init(&reader, &r.sink);
	CHECK_EQ(pack_feed(&reader, s.out.data, PACK_HEAD_SIZE, NULL), -EBADMSG);
	CHECK_EQ(pack_feed(&reader, much, sizeof(much), NULL), -EBADMSG);
	CHECK_EQ(r.n_calls, 0);
}

TEST(a_file_is_read_from_its_start_and_to_its_end)
{
	AUTO_FD fd = memfd_create("stream", MFD_CLOEXEC);
	SAMPLE(s);
	RECORDER(r);

	sample_file(&s, "abc", "x");
	sample_end(&s);
	CHECK_EQ(fd_write_full(fd, s.out.data, s.out.size), 0);
	CHECK_EQ(pack_read_file(fd, &r.sink, NULL), 0);
	CHECK_EQ(r.n_calls, 3);
	CHECK_EQ(ftruncate(fd, (off_t)s.out.size - 1), 0);
	CHECK_EQ(pack_read_file(fd, &r.sink, NULL), -EBADMSG);
	CHECK_EQ(r.n_calls, 6); /* what was whole was given */
	CHECK_EQ(pack_read_file(-1, &r.sink, NULL), -EBADF);
}

TESTS(UNIT(a_file_is_read_from_its_start_and_to_its_end), UNIT(a_stream_is_told_entry_by_entry),
	UNIT(it_does_not_matter_how_the_bytes_come), UNIT(names_are_clean_or_refused),
	UNIT(names_have_limits), UNIT(a_nul_in_a_name_is_refused),
	UNIT(bad_heads_are_refused_before_the_sink_hears_of_them),
	UNIT(modes_carry_no_more_than_permissions), UNIT(a_link_has_a_longest_target),
	UNIT(a_time_is_no_entry_and_belongs_to_one), UNIT(the_end_counts_and_is_the_end),
	UNIT(there_are_not_too_many_entries), UNIT(what_the_sink_says_is_passed_on_and_final),
	UNIT(a_reader_that_failed_reads_no_more))
