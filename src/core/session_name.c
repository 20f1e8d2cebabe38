/* Sessions by the names that their users gave them. A name belongs to one user: another one's
 * session of the same name is another session. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/uuid.h"
#include "core/identity.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session.h"

/* Somebody waits for the session that is being made for a name. */
struct name_waiter {
	struct name_waiter *next;
	session_cb *done;
	void *ctx;
};

struct naming {
	struct naming *next;
	struct service *service;
	char *user_id;
	char *name;
	struct name_waiter *waiters;
};

bool session_name_is_valid(const char *name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
	size_t size = strspn(name, allowed);

	return size >= 1 && size <= SESSION_NAME_MAX && !name[size] && name[0] != '.' &&
	       !uuid_is_valid(name);
}

struct session *session_find_named(struct service *s, const char *name, const struct identity *who)
{
	for (struct session *i = s->sessions; i; i = i->next) {
		bool is_called =
			streq(i->row.id, name) || (i->row.name && streq(i->row.name, name));

		if (is_called && session_is_open(i) && streq(i->row.user_id, who->user_id))
			return i;
	}
	return NULL;
}

static struct naming *find_naming(struct service *s, const char *name, const struct identity *who)
{
	for (struct naming *n = s->namings; n; n = n->next) {
		if (streq(n->name, name) && streq(n->user_id, who->user_id))
			return n;
	}
	return NULL;
}

static void unlist(struct naming *n)
{
	for (struct naming **at = &n->service->namings; *at; at = &(*at)->next) {
		if (*at == n) {
			*at = n->next;
			return;
		}
	}
}

static void on_made(void *ctx, struct session *session, struct problem *problem)
{
	struct naming *n = ctx;

	unlist(n);
	for (struct name_waiter *w = n->waiters, *next; w; w = next) {
		next = w->next;
		w->done(w->ctx, session, problem);
		free(w);
	}
	free(n->user_id);
	free(n->name);
	free(n);
}

static void wait_for(struct naming *n, session_cb *done, void *ctx)
{
	struct name_waiter *w = xnew(struct name_waiter);
	struct name_waiter **at = &n->waiters;

	*w = (struct name_waiter){ .done = done, .ctx = ctx };
	while (*at)
		at = &(*at)->next;
	*at = w;
}

static void make(struct service *s, const struct session_wish *wish, session_cb *done, void *ctx)
{
	struct naming *n = xnew(struct naming);

	n->service = s;
	n->user_id = xstrdup(wish->who->user_id);
	n->name = xstrdup(wish->name);
	n->next = s->namings;
	s->namings = n;
	wait_for(n, done, ctx);
	session_create(s, wish, on_made, n);
}

void session_obtain(struct service *s, const struct session_wish *wish, session_cb *done, void *ctx)
{
	struct session *session = session_find_named(s, wish->name, wish->who);
	struct problem problem = { 0 };

	if (session) {
		done(ctx, session, &problem);
		return;
	}
	struct naming *n = find_naming(s, wish->name, wish->who);
	if (n)
		wait_for(n, done, ctx);
	else
		make(s, wish, done, ctx);
}

bool session_name_is_free(
	struct service *s, const char *name, const struct identity *who, struct problem *problem)
{
	if (!session_find_named(s, name, who) && !find_naming(s, name, who))
		return true;
	(void)problem_set(problem, "session_name_taken", "another session has the name '%s'", name);
	return false;
}

void session_create_named(
	struct service *s, const struct session_wish *wish, session_cb *done, void *ctx)
{
	struct problem problem = { 0 };

	if (session_name_is_free(s, wish->name, wish->who, &problem))
		make(s, wish, done, ctx);
	else
		done(ctx, NULL, &problem);
	problem_fini(&problem);
}
