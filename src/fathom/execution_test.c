#include "fathom/execution.h"

#include "base/err.h"
#include "core/service_sample.h"

/* An execution of alice's, and how often it said that there may be something to tell. */
struct stage {
	struct sample m;
	struct execution_host host;
	struct execution *e;
	unsigned n_ready;
};

static void on_ready(void *ctx, struct execution *e)
{
	struct stage *s = ctx;

	CHECK(!s->e || s->e == e);
	s->n_ready++;
}

static void stage_set(struct stage *s, bool is_durable)
{
	*s = (struct stage){ 0 };
	sample_make(&s->m);
	s->m.settings.max_log_bytes = 1000;
	s->m.settings.store_sync_full = is_durable;
	sample_open(&s->m);
	s->host = (struct execution_host){
		.service = s->m.service,
		.who = sample_who("alice"),
		.ready = on_ready,
		.ctx = s,
	};
}

static void stage_open(struct stage *s)
{
	stage_set(s, false);
}

/* Nothing is accepted before it is stored. */
static void stage_open_durable(struct stage *s)
{
	stage_set(s, true);
}

static void stage_close(struct stage *s)
{
	execution_free(TAKE(s->e));
	sample_remove(&s->m);
}

/* Ask for `print(1)`, with more members of the message. */
static void ask(struct stage *s, const char *language, const char *limits)
{
	char text[512];
	struct err err = { 0 };
	struct fathom_message m;

	(void)snprintf(text, sizeof(text),
		"{\"v\":1,\"type\":\"execute\",\"id\":\"e\",\"ts\":\"2025-12-27T11:30:00Z\","
		"\"language\":\"%s\",\"code\":\"print(1)\",\"limits\":{\"timeout_ms\":1500,"
		"\"memory_mb\":64%s}}",
		language, limits);
	if (fathom_message_parse(text, strlen(text), &m, &err) < 0)
		fail_msg("%s", err.text);
	s->e = execution_new(&s->host, m.id);
	execution_start(s->e, &m, "host");
	fathom_message_fini(&m);
}

/* Accepted, and its job is there. */
static struct job *ask_and_start(struct stage *s, const char *limits)
{
	ask(s, "shell", limits);
	SAMPLE_UNTIL(&s->m, s->e->step == STEP_ACCEPTED);
	job_started(sample_job(0));
	return sample_job(0);
}

/* All messages there are now, one per line, without the moment; the caller frees it. */
static char *hear(struct stage *s)
{
	enum { ROOM = 1 << 16 };
	char *said = xcalloc(1, ROOM);
	size_t at = 0;

	for (struct shared *f; (f = execution_next(s->e)); shared_unref(f)) {
		AUTO_JSON *o = json_loadb(shared_data(f), f->size, JSON_ALLOW_NUL, NULL);

		CHECK(o != NULL);
		CHECK_STR(json_string_value(json_object_get(o, "id")), "e");
		(void)json_object_del(o, "ts");
		AUTO_FREE char *line = json_canonical(o);
		at += (size_t)snprintf(said + at, ROOM - at, "%s\n", line);
		CHECK(at < ROOM);
	}
	return said;
}

static char *hear_all(struct stage *s)
{
	SAMPLE_UNTIL(&s->m, execution_is_over(s->e));
	sample_settle(&s->m);
	char *said = hear(s);
	CHECK(execution_is_done(s->e));
	return said;
}

TEST(all_is_told_in_its_order)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, ",\"cpu_shares\":1024");
	CHECK(j->takes_files);
	job_running(j);
	job_writes(j, CHANNEL_STDOUT, "h\xc3");
	sample_settle(&s.m);
	job_writes(j, CHANNEL_STDOUT, "\xa4\xff");
	job_writes(j, CHANNEL_STDERR, "oops");
	sample_settle(&s.m);
	job_ends(j, REASON_NONZERO_EXIT, 3);
	AUTO_FREE char *said = hear_all(&s);
	CHECK(sample_in_order(said, "\"type\":\"ack\"", "running", "\"data\":\"h", "\"failed\"",
		"\"exit_code\":3", NULL));
	CHECK(strstr(said, "\"cpu_shares\":1024,\"max_output_bytes\":1000,\"memory_mb\":64,"
			   "\"timeout_ms\":1500"));
	CHECK(strstr(said, "\"data\":\"oops\"") && strstr(said, "\"type\":\"stderr\""));
	CHECK(strstr(said, "\xc3\xa4\xef\xbf\xbd")); /* whole, and what is no text replaced */
	CHECK(strstr(said, "\"duration_ms\":2500"));
	CHECK(strstr(said, "\"resource_usage\":{\"cpu_time_ms\":1500,\"peak_memory_mb\":3}"));
	stage_close(&s);
}

TEST(it_ran_also_if_that_was_never_told_us)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, "");
	job_writes(j, CHANNEL_STDOUT, "quick");
	job_ends(j, REASON_EXIT_CODE_0, 0);
	AUTO_FREE char *said = hear_all(&s);
	CHECK(sample_in_order(said, "ack", "running", "quick", "completed", "result", NULL));
	stage_close(&s);
}

TEST(a_client_that_reads_nothing_holds_nothing_up)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, "");
	job_running(j);
	for (int i = 0; i < 50; i++) {
		job_writes(j, CHANNEL_STDOUT, "0123456789");
		sample_turn(&s.m);
	}
	job_ends(j, REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&s.m, execution_is_over(s.e));
	SAMPLE_UNTIL(&s.m, s.m.service->n_runs == 0); /* stored, and gone */
	AUTO_FREE char *said = hear(&s);
	CHECK(sample_in_order(said, "ack", "running", "0123456789", "completed", "result", NULL));
	stage_close(&s);
}

static void check_end(enum reason reason, const char *status, const char *fault)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, "");
	job_running(j);
	job_ends(j, reason, -1);
	AUTO_FREE char *said = hear_all(&s);
	if (status)
		CHECK(sample_in_order(said, "running", status, "\"exit_code\":null", NULL));
	else
		CHECK(strstr(said, "result") == NULL);
	CHECK_EQ(strstr(said, "\"type\":\"error\"") != NULL, status == NULL);
	CHECK_EQ(strstr(said, "\"code\"") != NULL, fault != NULL);
	if (fault)
		CHECK(strstr(said, fault));
	stage_close(&s);
}

TEST(every_end_is_told_as_the_diagrams_have_it)
{
	check_end(REASON_SIGNALED, "\"failed\"", NULL);
	check_end(REASON_EXECUTION_TIMEOUT, "\"timeout\"", "TIMEOUT");
	check_end(REASON_OOM_KILLED, "\"oom\"", "OOM");
	check_end(REASON_CANCELED_BY_USER, "\"cancelled\"", NULL);
	check_end(REASON_INFRASTRUCTURE_ERROR, NULL, "INTERNAL_ERROR");
	check_end(REASON_STARTUP_TIMEOUT, NULL, "INTERNAL_ERROR");
}

TEST(who_prints_too_much_is_ended_with_an_error_and_a_result)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, ",\"max_output_bytes\":4");
	job_running(j);
	job_writes(j, CHANNEL_STDOUT, "123456");
	SAMPLE_UNTIL(&s.m, j->n_cancels == 1);
	job_ends(j, REASON_CANCELED_BY_USER, -1);
	AUTO_FREE char *said = hear_all(&s);
	CHECK(sample_in_order(said, "running", "\"1234\"", "OUTPUT_LIMIT", "bytes, 4", "\"failed\"",
		"OUTPUT_LIMIT", "\"exit_code\":null", NULL));
	stage_close(&s);
}

TEST(a_refusal_is_all_there_is)
{
	struct stage s;

	stage_open(&s);
	ask(&s, "cobol", "");
	CHECK_EQ(s.n_ready, 1);
	AUTO_FREE char *said = hear_all(&s);
	CHECK(strstr(said, "LANGUAGE_NOT_SUPPORTED") && !strstr(said, "ack"));
	stage_close(&s);
	stage_open(&s);
	s.m.service->is_draining = true;
	ask(&s, "shell", "");
	AUTO_FREE char *ending = hear_all(&s);
	CHECK(strstr(ending, "NETWORK_ERROR") && !strstr(ending, "ack"));
	stage_close(&s);
}

TEST(it_is_canceled_also_before_it_is_a_run)
{
	struct stage s;

	stage_open_durable(&s);
	ask(&s, "shell", "");
	CHECK_EQ(s.e->step, STEP_ASKED);
	execution_cancel(s.e);
	SAMPLE_UNTIL(&s.m, s.e->step == STEP_ACCEPTED);
	SAMPLE_UNTIL(&s.m, sample_job(0)->n_cancels == 1);
	job_started(sample_job(0));
	struct result r = job_result(sample_job(0), REASON_CANCELED_BY_USER, -1);
	r.started_ns = 0;
	job_ends_with(sample_job(0), &r);
	AUTO_FREE char *said = hear_all(&s);
	CHECK(sample_in_order(said, "ack", "\"cancelled\"", "result", NULL));
	CHECK(strstr(said, "running") == NULL); /* it never did */
	stage_close(&s);
}

TEST(what_nobody_listens_to_only_tells_of_its_end)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, "");
	job_running(j);
	execution_unfollow(s.e);
	unsigned n = s.n_ready;
	job_writes(j, CHANNEL_STDOUT, "to nobody");
	sample_settle(&s.m);
	CHECK_EQ(s.n_ready, n);
	CHECK(!execution_is_over(s.e));
	job_ends(j, REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&s.m, execution_is_over(s.e));
	CHECK_EQ(s.n_ready, n + 1);
	stage_close(&s);
}

TEST(one_that_is_let_go_of_goes_on)
{
	struct stage s;

	stage_open(&s);
	struct job *j = ask_and_start(&s, "");
	job_running(j);
	execution_free(TAKE(s.e));
	job_writes(j, CHANNEL_STDOUT, "x");
	job_ends(j, REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&s.m, s.m.service->n_runs == 0);
	stage_close(&s);
}

TESTS(UNIT(all_is_told_in_its_order), UNIT(it_ran_also_if_that_was_never_told_us),
	UNIT(a_client_that_reads_nothing_holds_nothing_up),
	UNIT(every_end_is_told_as_the_diagrams_have_it),
	UNIT(who_prints_too_much_is_ended_with_an_error_and_a_result),
	UNIT(a_refusal_is_all_there_is), UNIT(it_is_canceled_also_before_it_is_a_run),
	UNIT(what_nobody_listens_to_only_tells_of_its_end), UNIT(one_that_is_let_go_of_goes_on))
