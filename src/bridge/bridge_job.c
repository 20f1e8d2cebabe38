/* What the client said, or what we say for it, and what it hears when that goes wrong. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "bridge/bridge_private.h"

struct job *job_new(const char *text, size_t size)
{
	struct job *j = xnew(struct job);

	j->text = xcalloc(1, size + 1);
	memcpy(j->text, text, size);
	j->size = size;
	return j;
}

void job_free(struct job *j)
{
	if (!j)
		return;
	free(j->text);
	message_fini(&j->m);
	free(j);
}

void job_say_error(struct bridge *b, const json_t *id, int code, const char *text)
{
	AUTO_FREE char *line = message_error(id, code, text);

	outbox_add(&b->out, line, strlen(line));
}

void job_fail(struct bridge *b, const struct job *j, const char *text)
{
	if (j->is_ours || j->m.kind == MESSAGE_NOTIFICATION || j->m.kind == MESSAGE_RESPONSE)
		log_warn("a message did not reach the server: %s", text);
	else
		job_say_error(b, j->m.id, MESSAGE_SERVER_ERROR, text);
}
