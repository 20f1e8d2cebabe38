#include "core/service_sample.h"
#include "core/session.h"
#include "ipc/cur.h"
#include "ipc/inventory.h"

struct listed {
	unsigned n;
	char code[64];
	size_t n_entries;
	char first[32];
	bool is_cut;
};

static void on_listing(void *ctx, struct inventory *listing, struct problem *problem)
{
	struct listed *l = ctx;

	l->n++;
	(void)snprintf(l->code, sizeof(l->code), "%s", problem->code ? problem->code : "");
	CHECK((listing == NULL) == (problem->status != 0));
	if (!listing)
		return;
	l->n_entries = listing->n;
	l->is_cut = listing->is_cut;
	if (listing->n)
		(void)snprintf(l->first, sizeof(l->first), "%s", listing->at[0].path);
}

/* The box of job `n` says this, and ends. */
static void say(struct sample *m, size_t n, const void *data, size_t size, struct listed *l)
{
	struct job *j = sample_job(n);

	job_started(j);
	CHECK_EQ(fd_write_full(j->ends[CHANNEL_LISTING], data, size), 0);
	job_ends(j, REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(m, l->n);
}

TEST(a_box_says_what_is_in_the_workspace)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	CLEANUP(inventory_fini) struct inventory listing = { .is_cut = true };
	struct inventory_entry e = { .kind = INVENTORY_FILE, .path = (char *)"a/b" };
	CLEANUP(put_fini) struct put p;
	struct listed l = { 0 };

	CHECK_EQ(inventory_add(&listing, &e), 0);
	put_init(&p, 100);
	inventory_put(&listing, &p);
	session_list_files(session, false, on_listing, &l);
	CHECK_EQ(sample_job(0)->deed, DEED_LIST);
	CHECK_STR(sample_job(0)->workspace, session->workspace);
	say(&m, 0, p.data, p.size, &l);
	CHECK_STR(l.code, "");
	CHECK_EQ(l.n_entries, 1);
	CHECK_STR(l.first, "a/b");
	CHECK(l.is_cut);
	sample_remove(&m);
}

TEST(a_box_that_talks_nonsense_or_dies_is_a_problem)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct listed l = { 0 };

	session_list_files(session, false, on_listing, &l);
	say(&m, 0, "nonsense", 8, &l);
	CHECK_STR(l.code, "internal_error");
	l.n = 0;
	session_list_files(session, false, on_listing, &l);
	say(&m, 1, "", 0, &l);
	CHECK_STR(l.code, "internal_error");
	l.n = 0;
	session_list_files(session, false, on_listing, &l);
	job_started(sample_job(2));
	sample_down();
	SAMPLE_UNTIL(&m, l.n);
	CHECK_STR(l.code, "runtime_unavailable");
	sample_remove(&m);
}

TEST(a_session_that_is_lost_or_ends_has_no_files_to_list)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct listed lost = { 0 };
	struct listed running = { 0 };
	struct listed waiting = { 0 };
	struct listed late = { 0 };
	struct sample_answer gone = { 0 };

	session->is_lost = true;
	session_list_files(session, false, on_listing, &lost);
	CHECK_STR(lost.code, "workspace_lost");
	session->is_lost = false;
	session_list_files(session, false, on_listing, &running);
	session_list_files(session, false, on_listing, &waiting);
	job_started(sample_job(0));
	session_delete(session, sample_on_session, &gone);
	CHECK_STR(waiting.code, "session_not_found");
	session_list_files(session, false, on_listing, &late);
	CHECK_STR(late.code, "session_not_found");
	job_ends(sample_job(0), REASON_CANCELED_BY_USER, -1);
	SAMPLE_UNTIL(&m, running.n && gone.n);
	CHECK_STR(running.code, "session_not_found");
	sample_remove(&m);
}

/* Its pipe is still open then. */
TEST(a_service_that_ends_tells_who_waits)
{
	SAMPLE(m);
	sample_open(&m);
	struct listed l = { 0 };

	session_list_files(sample_session(&m), false, on_listing, &l);
	job_started(sample_job(0));
	sample_remove(&m);
	CHECK_EQ(l.n, 1);
	CHECK_STR(l.code, "session_not_found");
}

TESTS(UNIT(a_box_says_what_is_in_the_workspace),
	UNIT(a_box_that_talks_nonsense_or_dies_is_a_problem),
	UNIT(a_session_that_is_lost_or_ends_has_no_files_to_list),
	UNIT(a_service_that_ends_tells_who_waits))
