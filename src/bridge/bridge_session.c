/* The session with the server. A client begins it once; when the server was replaced, we begin it
 * anew as the client did, and it notices nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "bridge/bridge_private.h"

void bridge_session_set_version(struct bridge *b, const char *text, size_t size)
{
	char *version = text ? message_version(text, size) : NULL;

	if (!version)
		return;
	free(b->version);
	b->version = version;
}

static void queue_ours(struct bridge *b, const char *text, size_t size)
{
	struct job *j = job_new(text, size);

	(void)message_parse(text, size, &j->m, NULL);
	j->is_ours = true;
	TAILQ_INSERT_HEAD(&b->jobs, j, link);
}

/* A second time for the same client: it acknowledged long ago. */
static void acknowledge(struct bridge *b)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

	if (b->was_acknowledged)
		queue_ours(b, text, strlen(text));
}

void bridge_session_opened(struct work *w)
{
	struct bridge *b = w->bridge;

	memcpy(b->session, w->call->answer.session, sizeof(b->session));
	bridge_session_set_version(b, w->call->text, w->call->text_size);
	b->phase = PHASE_OPEN;
	b->can_listen = true;
	b->is_listening = false;
	w->session = ++b->n_sessions;
	if (w->job->is_ours)
		acknowledge(b);
	else
		b->was_acknowledged = false;
}

void bridge_session_lost(const struct work *w)
{
	struct bridge *b = w->bridge;

	if (w->session != b->n_sessions)
		return;
	b->n_sessions++;
	b->session[0] = '\0';
	if (b->phase == PHASE_OPEN)
		b->phase = PHASE_NEW;
	b->is_listening = false;
}

void bridge_session_keep(struct bridge *b, const struct job *j)
{
	if (j->is_ours)
		return;
	free(b->opening);
	b->opening = xcalloc(1, j->size + 1);
	memcpy(b->opening, j->text, j->size);
	b->opening_size = j->size;
}

void bridge_session_begin(struct bridge *b)
{
	queue_ours(b, b->opening, b->opening_size);
}

void bridge_session_listen(struct bridge *b)
{
	if (b->is_listening || !b->can_listen || b->phase != PHASE_OPEN || b->is_eof ||
		!b->was_acknowledged)
		return;
	b->is_listening = true;
	work_new(b, WORK_LISTEN, NULL)->due_ns = 1;
}
