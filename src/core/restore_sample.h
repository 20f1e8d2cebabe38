/* For tests of sessions whose files are restored. */
#pragma once
#include "base/path.h"
#include "core/service_sample.h"
#include "core/session.h"

#define SNAPSHOT "snap-0123456789ab"

/* The path of something beside the snapshots of the session. */
static inline char *path_of(struct sample *m, const struct session *session, const char *name)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "alice/snapshots/%s%s%s", session->row.id,
		*name ? "/" : "", name);
	return service_path(m->service, path);
}

/* A session that has a snapshot. */
static inline struct session *sample_snapped(struct sample *m)
{
	struct session *session = sample_session(m);
	AUTO_FREE char *dir = path_of(m, session, "");
	AUTO_FREE char *path = path_of(m, session, SNAPSHOT);

	CHECK_EQ(path_make_dirs(dir, 0700, NULL), 0);
	scratch_write(AT_FDCWD, path, "all files");
	return session;
}

static inline void restore(struct session *session, struct sample_answer *a)
{
	*a = (struct sample_answer){ 0 };
	session_restore(session, SNAPSHOT, sample_on_session, a);
}

/* One that is being restored, in a service that is opened for it. */
static inline struct session *sample_restoring(struct sample *m, struct sample_answer *a)
{
	sample_open(m);
	struct session *session = sample_snapped(m);

	restore(session, a);
	return session;
}

/* The nth box takes what it is sent, and ends so. */
static inline void box_ends(struct sample *m, size_t n, enum reason reason)
{
	SAMPLE_UNTIL(m, sample_host.n_jobs == n + 1);
	job_started(sample_job(n));
	job_ends(sample_job(n), reason, 0);
}

/* Ask for a run in the session. */
static inline void ask_in(struct sample *m, const struct session *session, struct sample_answer *a)
{
	char body[120];

	(void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"command\":[\"true\"]}",
		session->row.id);
	sample_ask(m, a, "alice", NULL, body);
}

/* One that was accepted, and waits or not. */
static inline struct run *run_in(struct sample *m, const struct session *session)
{
	struct sample_answer a;

	ask_in(m, session, &a);
	SAMPLE_UNTIL(m, a.n == 1);
	CHECK_EQ(a.status, 0);
	CHECK(a.run != NULL);
	return a.run;
}
