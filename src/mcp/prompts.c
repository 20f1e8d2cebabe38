#include "mcp/prompts.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/call.h"
#include "mcp/mcp_peer.h"

#define TEXT_MAX 4096u

static const char *text_of(const json_t *arguments, const char *name, const char *standard)
{
	const char *text = json_string_value(json_object_get(arguments, name));

	return text ? text : standard;
}

static void finish(struct call *c, const char *description, const char *text)
{
	call_finish(c, json_pack("{s:s,s:[{s:s,s:o}]}", "description", description, "messages",
			       "role", "user", "content", call_text(text)));
}

static void get_analyze(struct call *c, const json_t *arguments)
{
	char text[TEXT_MAX];

	(void)snprintf(text, sizeof(text),
		"Analyze the file %.1000s in the session %.100s with run_python. First print its "
		"shape, its columns and some rows. Then answer: %.2000s\nSave each chart as a PNG "
		"in /mnt/data and look at it with read_artifact before you speak of it.",
		text_of(arguments, "path", ""), text_of(arguments, "session_id", ""),
		text_of(arguments, "question", "what is worth knowing about it?"));
	finish(c, "Look into a data file", text);
}

static void get_report(struct call *c, const json_t *arguments)
{
	char text[TEXT_MAX];

	(void)snprintf(text, sizeof(text),
		"Make a report about %.2000s as /mnt/data/report.pdf in the session %.100s, with "
		"run_python: charts with matplotlib, the document with reportlab. List what is in "
		"/mnt/data first (list_files). At the end say the download_url of the report.",
		text_of(arguments, "topic", ""), text_of(arguments, "session_id", ""));
	finish(c, "Make a PDF of what the files of a session say", text);
}

#define SESSION_ARGUMENT                                                                           \
	"{\"name\":\"session_id\",\"description\":\"The session that has the files\","             \
	"\"required\":true}"

const struct mcp_prompt prompt_analyze_file = {
	.name = "analyze_file",
	.title = "Analyze a file",
	.description = "Look into a data file of a session, with charts",
	.arguments = "[" SESSION_ARGUMENT
		     ",{\"name\":\"path\",\"description\":\"Such as /mnt/data/sales.csv\","
		     "\"required\":true},"
		     "{\"name\":\"question\",\"description\":\"What is to be found out\","
		     "\"required\":false}]",
	.get = get_analyze,
};

const struct mcp_prompt prompt_make_report = {
	.name = "make_report",
	.title = "Make a report",
	.description = "A PDF about the files of a session",
	.arguments =
		"[" SESSION_ARGUMENT ",{\"name\":\"topic\",\"description\":\"What it is about\","
		"\"required\":true}]",
	.get = get_report,
};

/* --- completion: names of sessions are known --- */

void prompts_complete(struct call *c, const json_t *ref, const json_t *argument)
{
	const char *name = text_of(argument, "name", "");
	const char *begin = text_of(argument, "value", "");
	json_t *values = json_array();
	size_t total = 0;

	(void)ref;
	for (const struct session *s = call_service(c)->sessions; s; s = s->next) {
		const char *shown = session_shown_id(s);

		if (!streq(name, "session_id") || !session_is_open(s) ||
			!streq(s->row.user_id, c->peer->who.user_id) ||
			strncmp(shown, begin, strlen(begin)) != 0)
			continue;
		if (total++ < PROMPTS_VALUES_MAX)
			(void)json_array_append_new(values, json_string(shown));
	}
	call_finish(c, json_pack("{s:{s:o,s:I,s:b}}", "completion", "values", values, "total",
			       (json_int_t)total, "hasMore", total > PROMPTS_VALUES_MAX));
}
