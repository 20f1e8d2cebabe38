#include "core/service_sample.h"
#include "core/session.h"
#include "ipc/pack_write.h"

struct fetched {
	unsigned n;
	int status;
	char code[64];
	struct session_file file; /* its descriptor is not taken */
	char content[64];
};

static void on_file(void *ctx, struct session_file *file, struct problem *problem)
{
	struct fetched *f = ctx;

	f->n++;
	f->status = problem->status;
	(void)snprintf(f->code, sizeof(f->code), "%s", problem->code ? problem->code : "");
	f->file = *file;
	if (problem->status == 0)
		CHECK_EQ(pread(file->fd, f->content, file->size, (off_t)file->offset), file->size);
}

/* The box of job `n` sends these. */
static void send_file(size_t n, const char *name, const char *text)
{
	struct pack_writer w = { .fd = sample_job(n)->ends[CHANNEL_CAPTURE] };

	w.max_bytes = UINT64_MAX;
	CHECK_EQ(pack_write_bytes(&w, name, 0644, text, strlen(text), NULL), 0);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
}

static void send_nothing(size_t n)
{
	struct pack_writer w = { .fd = sample_job(n)->ends[CHANNEL_CAPTURE] };

	CHECK_EQ(pack_write_end(&w, NULL), 0);
}

static void ends(struct sample *m, size_t n, struct fetched *f)
{
	job_ends(sample_job(n), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(m, f->n);
}

/* A new session is asked for its file "a", and the box is there. */
static void begin(struct sample *m, struct fetched *f)
{
	session_get_file(sample_session(m), "a", on_file, f);
	job_started(sample_job(0));
}

TEST(a_file_is_copied_out_and_described)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct fetched f = { 0 };

	session_get_file(session, "a/b.txt", on_file, &f);
	CHECK_EQ(sample_job(0)->deed, DEED_FETCH);
	job_started(sample_job(0));
	send_file(0, "a/b.txt", "hello");
	ends(&m, 0, &f);
	CHECK_EQ(f.status, 0);
	CHECK_EQ(f.file.size, 5);
	CHECK_STR(f.content, "hello");
	CHECK(str_after(f.file.mime, "text/plain"));
	CHECK_STR(
		f.file.sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
	sample_remove(&m);
}

TEST(what_is_not_there_or_is_cut_short_is_said)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct fetched none = { 0 };
	struct fetched cut = { 0 };

	session_get_file(session, "a", on_file, &none);
	job_started(sample_job(0));
	send_nothing(0);
	ends(&m, 0, &none);
	CHECK_STR(none.code, "file_not_found");
	session_get_file(session, "a", on_file, &cut);
	job_started(sample_job(1));
	job_writes(sample_job(1), CHANNEL_CAPTURE, "F");
	ends(&m, 1, &cut);
	CHECK_STR(cut.code, "runtime_unavailable");
	sample_remove(&m);
}

TEST(a_box_can_not_answer_with_another_file)
{
	SAMPLE(m);
	sample_open(&m);
	struct fetched f = { 0 };

	begin(&m, &f);
	send_file(0, "b", "another");
	ends(&m, 0, &f);
	CHECK_EQ(f.status, 503);
	sample_remove(&m);
}

TEST(what_is_too_large_is_refused)
{
	SAMPLE(m);
	sample_open(&m);
	m.settings.max_artifact_file_bytes = 4;
	struct fetched f = { 0 };

	begin(&m, &f);
	send_file(0, "a", "hello");
	ends(&m, 0, &f);
	CHECK_STR(f.code, "payload_too_large");
	CHECK_EQ(f.status, 413);
	sample_remove(&m);
}

TEST(a_path_that_leads_elsewhere_starts_no_box)
{
	static const char *const bad[] = { "../a", "/etc/passwd", "a/../../b", "%2e%2e/a", "", "a/",
		"a\\b", "a\nb" };
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fetched f = { 0 };

		session_get_file(session, bad[i], on_file, &f);
		CHECK_EQ(f.n, 1);
		CHECK_STR(f.code, "invalid_path");
	}
	CHECK_EQ(session->errand == NULL, true);
	sample_remove(&m);
}

TEST(without_a_keeper_it_can_be_tried_again)
{
	SAMPLE(m);
	sample_open(&m);
	struct fetched f = { 0 };

	begin(&m, &f);
	struct result result = job_result(sample_job(0), REASON_PROVISION_FAILED, -1);
	result.error = ECONNRESET;
	job_ends_with(sample_job(0), &result);
	SAMPLE_UNTIL(&m, f.n);
	CHECK_STR(f.code, "runtime_unavailable");
	sample_remove(&m);
}

TESTS(UNIT(a_file_is_copied_out_and_described), UNIT(what_is_not_there_or_is_cut_short_is_said),
	UNIT(a_box_can_not_answer_with_another_file), UNIT(what_is_too_large_is_refused),
	UNIT(a_path_that_leads_elsewhere_starts_no_box),
	UNIT(without_a_keeper_it_can_be_tried_again))
