/* A disk that is full, and calls that fail: what was kept before stays, nothing is kept
 * that is not whole, and the guest goes on. */
#include "lib/fault.h"
#include "lib/stream_sample.h"

static bool disk_is_full;

static bool is_refused(void)
{
	if (disk_is_full)
		errno = ENOSPC;
	return disk_is_full || fault_hits();
}

#define WRITING(type, name, parameters, arguments)                                                 \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return is_refused() ? -1 : __real_##name arguments;                                \
	}

/* These names, because files may be large (_FILE_OFFSET_BITS). */
WRITING(ssize_t, pwrite64, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at))
WRITING(ssize_t, splice, (int fd, off_t *at, int to_fd, off_t *to_at, size_t n, unsigned flags),
	(fd, at, to_fd, to_at, n, flags))
FAULT(int, ftruncate64, (int fd, off_t size), (fd, size))

static void check_kept(struct sample *m, const char *text, uint64_t n_frames)
{
	SAMPLE_VIEW(view);

	sample_replay(m, &view);
	CHECK_STR(view.output[0].data, text);
	CHECK_EQ(view.n_frames, n_frames);
}

TEST(a_full_disk_is_told_once_and_the_run_goes_on)
{
	SAMPLE(m);

	sample_start(&m);
	sample_write(&m, 0, "kept", 4);
	sample_wait(&m, 1);
	disk_is_full = true;
	sample_write(&m, 0, "lost", 4);
	sample_idle(&m, 5);
	CHECK_EQ(m.n_failed, 1);
	CHECK_EQ(m.failure, -ENOSPC);
	sample_write(&m, 1, "lost too", 8);
	sample_idle(&m, 5);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), -ENOSPC);
	disk_is_full = false;
	sample_write(&m, 0, "too late", 8);
	sample_drain(&m);
	CHECK_EQ(m.n_failed, 1);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 2);
	check_kept(&m, "kept", 2);
	sample_close(&m);
	sample_open(&m);
	check_kept(&m, "kept", 2);
}

TEST(when_an_event_still_fits_it_says_so)
{
	SAMPLE(m);

	sample_start(&m);
	sample_write(&m, 0, "kept", 4);
	sample_wait(&m, 1);
	CHECK(fault_arm(1, ENOSPC)); /* the next call is splice() */
	sample_write(&m, 0, "lost", 4);
	sample_idle(&m, 5);
	CHECK(fault_disarm());
	CHECK_EQ(m.n_failed, 1);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 2, NULL, NULL);
	CHECK_NEXT(c,
		"{\"type\":\"event\",\"event\":\"output_lost\",\"data\":{\"reason\":\"disk_full\","
		"\"message\":\"No space left on device\"},\"seq\":2}");
	sample_drain(&m);
	check_kept(&m, "kept", 2);
}

/* Whichever call fails: a prefix of the output is kept, in frames without a gap. */
TEST(any_one_failure_leaves_something_whole)
{
	for (int n = 1; fault_arm(n, EIO); n++) {
		SAMPLE(m);
		SAMPLE_VIEW(view);
		struct err err = { 0 };

		m.options.log_cap = 20;
		if (stream_open(&m.loop, m.dir.fd, &m.options, &m.stream, &err) < 0) {
			CHECK(fault_disarm());
			CHECK_EQ(err.code, -EIO);
			continue;
		}
		sample_attach(&m);
		(void)stream_event(m.stream, "start", "{}");
		for (int i = 0; i < 5; i++) {
			sample_write(&m, 0, "12345", 5);
			sample_idle(&m, 1);
		}
		sample_drain(&m);
		(void)stream_event(m.stream, "end", "{}");
		bool has_failed = fault_disarm();
		CHECK_EQ(stream_was_truncated(m.stream) || m.n_failed == 1, true);
		CHECK(has_failed || m.n_failed == 0);
		sample_close(&m);
		sample_open(&m);
		sample_replay(&m, &view);
		if (view.output[0].size > 0)
			CHECK_MEM(view.output[0].data, "12345123451234512345", view.output[0].size);
		CHECK(view.output[0].size <= 20 && view.output[0].size % 5 == 0);
	}
}

TESTS(UNIT(a_full_disk_is_told_once_and_the_run_goes_on), UNIT(when_an_event_still_fits_it_says_so),
	UNIT(any_one_failure_leaves_something_whole))
