/* Which sessions expired lately, so that who comes back to one can be told. It is not more than a
 * courtesy: the last ones, for as long as the server runs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/date.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/identity.h"
#include "core/service.h"
#include "core/session_private.h"

#define PAST_MAX 256u

struct past_session {
	char user_id[IDENTITY_USER_ID_MAX + 1];
	char id[UUID_SIZE + 1];
	char name[SESSION_NAME_MAX + 1]; /* may be empty */
	char expired_at[DATE_SIZE + 1];
};

struct session_past {
	size_t n; /* that were ever noted; the oldest are overwritten */
	struct past_session at[PAST_MAX];
};

static bool is_called(const struct past_session *p, const char *name, const char *user_id)
{
	return name[0] && streq(p->user_id, user_id) &&
	       (streq(p->id, name) || streq(p->name, name));
}

/* Its name; none if another one was made with it before this one was looked at. */
static const char *name_of(const struct session *session)
{
	const char *name = session->row.name;

	for (const struct session *i = session->service->sessions; name && i; i = i->next) {
		if (i != session && i->row.name && streq(i->row.name, name) &&
			streq(i->row.user_id, session->row.user_id))
			name = NULL;
	}
	return name ? name : "";
}

void session_past_add(const struct session *session)
{
	struct service *s = session->service;
	const struct session_row *row = &session->row;

	if (!s->past)
		s->past = xnew(struct session_past);
	struct past_session *p = &s->past->at[s->past->n++ % PAST_MAX];
	(void)snprintf(p->user_id, sizeof(p->user_id), "%s", row->user_id);
	(void)snprintf(p->id, sizeof(p->id), "%s", row->id);
	(void)snprintf(p->name, sizeof(p->name), "%s", name_of(session));
	(void)snprintf(
		p->expired_at, sizeof(p->expired_at), "%s", row->expires_at ? row->expires_at : "");
}

void session_past_forget(struct service *s, const char *name, const char *user_id)
{
	for (size_t i = 0; s->past && name && i < PAST_MAX; i++) {
		if (is_called(&s->past->at[i], name, user_id))
			s->past->at[i] = (struct past_session){ 0 };
	}
}

/* One whose time is over, and which nobody has looked at since. */
static const char *expired_just_now(struct service *s, const char *name, const char *user_id)
{
	for (const struct session *i = s->sessions; i; i = i->next) {
		bool is_this = streq(i->row.id, name) || (i->row.name && streq(i->row.name, name));

		if (is_this && streq(i->row.user_id, user_id) && i->is_stored && !i->is_ending &&
			!session_is_open(i))
			return i->row.expires_at;
	}
	return NULL;
}

const char *session_expired_at(struct service *s, const char *name, const struct identity *who)
{
	const char *at = expired_just_now(s, name, who->user_id);

	for (size_t i = 0; !at && s->past && i < PAST_MAX; i++) {
		const struct past_session *p = &s->past->at[(s->past->n - 1 - i) % PAST_MAX];

		if (is_called(p, name, who->user_id))
			at = p->expired_at;
	}
	return at;
}
