/* For programs that try the library as somebody else's program would use it: with the
 * public header, and nothing else of ours. */
#pragma once
#include <belljar.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* For calls that fill `error`. */
#define DO(call)                                                                                   \
	do {                                                                                       \
		int done_ = (call);                                                                \
		if (done_ < 0) {                                                                   \
			fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, done_,    \
				error.text);                                                       \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define ARGV(...)     ((const char *const[]){ __VA_ARGS__, NULL })
#define SHELL(script) ARGV("/bin/sh", "-c", script)

/* A listener that keeps what was printed. */
struct collector {
	struct belljar_listener listener; /* first: the listener is this */
	char out[4096];
	char err[4096];
	size_t n_out;
	size_t n_err;
	int n_started;
	int n_running;
};

static inline void collect(struct belljar_listener *self, const struct belljar_event *event)
{
	struct collector *c = (struct collector *)self;

	c->n_started += event->kind == BELLJAR_EVENT_STARTED;
	c->n_running += event->kind == BELLJAR_EVENT_RUNNING;
	if (event->kind == BELLJAR_EVENT_STDOUT && c->n_out + event->size < sizeof(c->out)) {
		memcpy(c->out + c->n_out, event->data, event->size);
		c->n_out += event->size;
	}
	if (event->kind == BELLJAR_EVENT_STDERR && c->n_err + event->size < sizeof(c->err)) {
		memcpy(c->err + c->n_err, event->data, event->size);
		c->n_err += event->size;
	}
}

#define COLLECTOR(name) struct collector name = { .listener = { .on_event = collect } }

static inline struct belljar_sandbox *open_sandbox(void)
{
	struct belljar_sandbox *sandbox = NULL;
	struct belljar_error error = { 0 };

	DO(belljar_open(NULL, &sandbox, &error));
	CHECK(sandbox != NULL);
	return sandbox;
}

/* Run to the end; an error ends the program. */
static inline struct belljar_result run(struct belljar_sandbox *sandbox,
	const struct belljar_task_options *options, struct collector *collector)
{
	struct belljar_task *task = NULL;
	struct belljar_result result;
	struct belljar_error error = { 0 };

	memset(&result, 0xff, sizeof(result));
	DO(belljar_task_new(sandbox, options, &task, &error));
	CHECK(strlen(belljar_task_id(task)) == 32);
	DO(belljar_task_execute(task, collector ? &collector->listener : NULL, &result, &error));
	CHECK(error.code == 0 && error.text[0] == '\0');
	belljar_task_free(task);
	return result;
}

/* Entries of a directory of /proc. */
static inline int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	CHECK(dir != NULL);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}
