/* The smallest program, and that its output streams: what the guest prints second
 * depends on what we did when we heard the first. */
#include <unistd.h>

#include "check.h"

struct talk {
	struct belljar_listener listener;
	int answer_fd;
	int n_events;
	enum belljar_event_kind kinds[8];
	char text[64];
};

static void on_event(struct belljar_listener *self, const struct belljar_event *event)
{
	struct talk *t = (struct talk *)self;

	CHECK(t->n_events < 8);
	t->kinds[t->n_events++] = event->kind;
	if (event->kind != BELLJAR_EVENT_STDOUT)
		return;
	CHECK(strlen(t->text) + event->size < sizeof(t->text));
	strncat(t->text, event->data, event->size);
	if (strcmp(t->text, "name?\n") == 0)
		CHECK(write(t->answer_fd, "belljar\n", 8) == 8);
}

int main(void)
{
	struct belljar_sandbox *sandbox = open_sandbox();
	struct belljar_error error = { 0 };
	struct belljar_task *task = NULL;
	struct belljar_result result;
	int answers[2];

	CHECK(pipe(answers) == 0);
	struct talk talk = { .listener = { .on_event = on_event }, .answer_fd = answers[1] };
	struct belljar_task_options options = {
		.argv = SHELL("echo name?; read name; echo hello $name"),
		.input_fd = answers[0],
		.has_input_fd = true,
	};
	DO(belljar_task_new(sandbox, &options, &task, &error));
	DO(belljar_task_execute(task, &talk.listener, &result, &error));
	CHECK(result.outcome == BELLJAR_SUCCESS && result.exit_code == 0 && result.signal == 0);
	CHECK(strcmp(talk.text, "name?\nhello belljar\n") == 0);
	CHECK(talk.kinds[0] == BELLJAR_EVENT_STARTED);
	CHECK(talk.n_events >= 4);
	CHECK(result.log_bytes == strlen(talk.text));
	CHECK(strcmp(result.image, "host") == 0);
	CHECK(result.created_ns <= result.started_ns && result.started_ns <= result.ended_ns);
	CHECK(result.enforced == belljar_enforced(sandbox));
	CHECK(belljar_task_execute(task, NULL, &result, &error) == -EALREADY);
	CHECK(error.code == -EALREADY && error.text[0]);
	belljar_task_free(task);

	/* Without any input the guest finds its end, and does not wait. */
	COLLECTOR(c);
	options = (struct belljar_task_options){ .argv = SHELL("cat; echo end") };
	result = run(sandbox, &options, &c);
	CHECK(strcmp(c.out, "end\n") == 0 && c.n_started == 1 && c.n_running == 1);

	COLLECTOR(d);
	options = (struct belljar_task_options){
		.argv = ARGV("cat"),
		.input = "a\0b",
		.input_size = 3,
	};
	result = run(sandbox, &options, &d);
	CHECK(d.n_out == 3 && memcmp(d.out, "a\0b", 3) == 0);

	/* A terminal, of the size asked for. */
	COLLECTOR(e);
	options = (struct belljar_task_options){
		.argv = SHELL("test -t 0 && stty size"),
		.tty = true,
		.rows = 33,
		.columns = 77,
	};
	result = run(sandbox, &options, &e);
	CHECK(strcmp(e.out, "33 77\r\n") == 0);
	belljar_close(sandbox);
	belljar_close(NULL);
	belljar_task_free(NULL);
	printf("hello %s\n", belljar_version());
	return 0;
}
