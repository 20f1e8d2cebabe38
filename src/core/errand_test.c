#include "core/errand.h"

#include "core/service_sample.h"

struct outcome {
	unsigned n;
	int r;
	char text[256];
	uint64_t n_bytes;
};

static void on_done(void *ctx, int r, const char *text, uint64_t n_bytes)
{
	struct outcome *o = ctx;

	o->n++;
	o->r = r;
	(void)snprintf(o->text, sizeof(o->text), "%s", text);
	o->n_bytes = n_bytes;
}

static int feed_text(void *ctx, int fd, struct err *err)
{
	const char *text = ctx;

	if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return err_errno(err, "send");
	return 0;
}

static int feed_badly(void *ctx, int fd, struct err *err)
{
	(void)ctx;
	(void)fd;
	return err_set(err, -E2BIG, "too many files");
}

static int feed_without_end(void *ctx, int fd, struct err *err)
{
	char chunk[4096] = { 0 };

	(void)ctx;
	while (send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL) > 0)
		;
	return err_errno(err, "send");
}

TEST(files_go_in)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome o = { 0 };
	char text[] = "stream";
	char buf[16] = "";
	struct errand_plan plan = { .feed = feed_text, .feed_ctx = text, .capture_fd = -1 };

	plan.clears = true;
	errand_start(session, &plan, on_done, &o);
	struct job *j = sample_job(0);
	CHECK_EQ(j->deed, DEED_FILES);
	CHECK(j->takes_files && j->clears && !j->captures);
	CHECK_STR(j->workspace, session->workspace);
	job_started(j);
	CHECK(j->deaf);
	CHECK_EQ(read(j->ends[CHANNEL_FILES], buf, sizeof(buf)), 6);
	CHECK_STR(buf, "stream");
	sample_settle(&m);
	CHECK_EQ(o.n, 0); /* the box has not said that it has them */
	job_ends(j, REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, o.n);
	CHECK_EQ(o.r, 0);
	CHECK(j->is_released);
	sample_remove(&m);
}

TEST(files_come_out)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome o = { 0 };
	AUTO_FD file = openat(m.dir.fd, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct errand_plan plan = { .capture_fd = fcntl(file, F_DUPFD_CLOEXEC, 0) };

	plan.capture_max = 100;
	errand_start(session, &plan, on_done, &o);
	job_started(sample_job(0));
	job_writes(sample_job(0), CHANNEL_CAPTURE, "everything");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, o.n);
	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.n_bytes, 10);
	CHECK(scratch_holds(m.dir.fd, "out", "everything"));
	sample_remove(&m);
}

TEST(one_file_comes_out)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome o = { 0 };
	struct errand_plan plan = { .only = "a/b.txt", .capture_max = 100 };

	plan.capture_fd = openat(m.dir.fd, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	errand_start(session, &plan, on_done, &o);
	CHECK_EQ(sample_job(0)->deed, DEED_FETCH);
	CHECK(sample_job(0)->captures && !sample_job(0)->takes_files);
	job_started(sample_job(0));
	job_writes(sample_job(0), CHANNEL_CAPTURE, "it");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, o.n);
	CHECK_EQ(o.r, 0);
	CHECK(scratch_holds(m.dir.fd, "out", "it"));
	sample_remove(&m);
}

struct failure {
	enum reason reason;
	int error;
	int r; /* what the errand tells */
};

/* The errand is the job `n`, and ends so. */
static void check_failure(
	struct sample *m, struct session *session, size_t n, const struct failure *f)
{
	struct outcome o = { 0 };
	char text[] = "x";
	struct errand_plan plan = { .feed = feed_text, .feed_ctx = text, .capture_fd = -1 };

	errand_start(session, &plan, on_done, &o);
	struct job *j = sample_job(n);
	struct result result = job_result(j, f->reason, -1);
	result.error = f->error;
	(void)snprintf(result.message, sizeof(result.message), "because %zu", n);
	job_started(j);
	job_ends_with(j, &result);
	SAMPLE_UNTIL(m, o.n);
	CHECK_EQ(o.r, f->r);
	CHECK_STR(o.text, result.message);
}

/* The nth errand brings out not all, for this reason. */
static void check_not_whole(struct sample *m, struct session *session, size_t n, int error)
{
	struct outcome o = { 0 };
	struct errand_plan plan = { .capture_max = 100 };

	plan.capture_fd = openat(m->dir.fd, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	errand_start(session, &plan, on_done, &o);
	job_started(sample_job(n));
	struct result result = job_result(sample_job(n), REASON_EXIT_CODE_0, 0);
	result.error = error;
	(void)snprintf(result.message, sizeof(result.message), "capture: not all");
	job_ends_with(sample_job(n), &result);
	SAMPLE_UNTIL(m, o.n);
	CHECK_EQ(o.r, -error);
	CHECK_STR(o.text, "capture: not all");
}

TEST(what_does_not_come_out_whole_is_a_failure)
{
	static const int errors[] = { EFBIG, EACCES, ENAMETOOLONG };
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		check_not_whole(&m, session, i, errors[i]);
	sample_remove(&m);
}

/* What fails first is what is told. */
TEST(failures_have_their_reasons)
{
	static const struct failure cases[] = {
		{ REASON_PROVISION_FAILED, ENOSPC, -ENOSPC },
		{ REASON_PROVISION_FAILED, EDQUOT, -ENOSPC },
		{ REASON_PROVISION_FAILED, EFBIG, -ENOSPC },
		{ REASON_PROVISION_FAILED, ENOTDIR, -ENOTDIR },
		{ REASON_CANCELED_BY_USER, 0, -ECONNRESET }, /* not by us */
		{ REASON_OOM_KILLED, 0, -EIO },
	};
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_failure(&m, session, i, &cases[i]);
	sample_remove(&m);
}

TEST(a_feed_that_fails_is_told_with_its_words)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome o = { 0 };
	struct errand_plan plan = { .feed = feed_badly, .capture_fd = -1 };
	char byte;

	errand_start(session, &plan, on_done, &o);
	struct job *j = sample_job(0);
	job_started(j);
	/* The box sees a stream that was cut, and ends. */
	SAMPLE_UNTIL(&m, recv(j->ends[CHANNEL_FILES], &byte, 1, MSG_DONTWAIT) == 0);
	CHECK_EQ(o.n, 0);
	struct result result = job_result(j, REASON_PROVISION_FAILED, -1);
	result.error = EBADMSG;
	job_ends_with(j, &result);
	SAMPLE_UNTIL(&m, o.n);
	CHECK_EQ(o.r, -E2BIG);
	CHECK_STR(o.text, "too many files");
	sample_remove(&m);
}

TEST(a_box_that_hangs_up_says_why_itself)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome o = { 0 };
	struct errand_plan plan = { .feed = feed_without_end, .capture_fd = -1 };

	errand_start(session, &plan, on_done, &o);
	job_started(sample_job(0));
	struct result result = job_result(sample_job(0), REASON_PROVISION_FAILED, -1);
	result.error = ENOSPC;
	(void)snprintf(result.message, sizeof(result.message), "the workspace is full");
	job_ends_with(sample_job(0), &result);
	SAMPLE_UNTIL(&m, o.n);
	CHECK_EQ(o.r, -ENOSPC);
	CHECK_STR(o.text, "the workspace is full");
	sample_remove(&m);
}

TEST(a_keeper_that_is_lost_or_refuses_or_is_away)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome lost = { 0 }, refused = { 0 }, away = { 0 };
	struct errand_plan plan = { .feed = feed_without_end, .capture_fd = -1 };

	errand_start(session, &plan, on_done, &refused);
	job_refused(sample_job(0), REASON_PROVISION_FAILED, -ENOENT, "no such workspace");
	CHECK_EQ(refused.n, 1);
	CHECK_EQ(refused.r, -ENOENT);
	errand_start(session, &plan, on_done, &lost);
	job_started(sample_job(1));
	sample_down();
	SAMPLE_UNTIL(&m, lost.n); /* the thread has to notice, too */
	CHECK_EQ(lost.r, -ECONNRESET);
	errand_start(session, &plan, on_done, &away);
	CHECK_EQ(away.n, 1);
	CHECK_EQ(away.r, -ECONNRESET);
	CHECK(session->errand == NULL);
	sample_remove(&m);
}

TEST(errands_of_a_session_come_one_after_the_other)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct session *other = sample_session(&m);
	struct outcome a = { 0 }, b = { 0 }, c = { 0 };
	char text[] = "x";
	struct errand_plan plan = { .feed = feed_text, .feed_ctx = text, .capture_fd = -1 };

	errand_start(session, &plan, on_done, &a);
	errand_start(session, &plan, on_done, &b);
	errand_start(other, &plan, on_done, &c);
	CHECK_EQ(sample_host.n_jobs, 2); /* of two sessions */
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(sample_host.n_jobs, 3);
	CHECK_EQ(b.n, 0);
	job_started(sample_job(2));
	job_ends(sample_job(2), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, b.n);
	sample_remove(&m); /* with one under way */
	CHECK_EQ(c.n, 1);
	CHECK_EQ(c.r, -ECANCELED);
}

TEST(deleting_a_session_waits_for_what_is_done_to_its_files)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct outcome a = { 0 }, b = { 0 };
	struct sample_answer gone = { 0 };
	struct errand_plan plan = { .feed = feed_without_end, .capture_fd = -1 };

	errand_start(session, &plan, on_done, &a);
	errand_start(session, &plan, on_done, &b);
	job_started(sample_job(0));
	session_delete(session, sample_on_session, &gone);
	CHECK_EQ(b.n, 1);
	CHECK_EQ(b.r, -ECANCELED);
	CHECK_EQ(sample_job(0)->n_cancels, 1);
	sample_settle(&m);
	CHECK_EQ(gone.n + a.n, 0);
	CHECK_EQ(sample_host.n_dropped, 0);
	job_ends(sample_job(0), REASON_CANCELED_BY_USER, -1);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(a.n, 1);
	CHECK_EQ(a.r, -ECANCELED);
	CHECK_EQ(gone.status, 0);
	CHECK_EQ(m.service->n_sessions, 0);
	sample_remove(&m);
}

TESTS(UNIT(files_go_in), UNIT(files_come_out), UNIT(one_file_comes_out),
	UNIT(failures_have_their_reasons), UNIT(what_does_not_come_out_whole_is_a_failure),
	UNIT(a_feed_that_fails_is_told_with_its_words), UNIT(a_box_that_hangs_up_says_why_itself),
	UNIT(a_keeper_that_is_lost_or_refuses_or_is_away),
	UNIT(errands_of_a_session_come_one_after_the_other),
	UNIT(deleting_a_session_waits_for_what_is_done_to_its_files))
