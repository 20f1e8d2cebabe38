/* Inside libbelljar: a task and its execution. */
#pragma once
#include <pthread.h>
#include <stdbool.h>

#include "client/sandbox.h"
#include "ipc/spec.h"

/* Our own copy of a public belljar_file. */
struct task_file {
	char *name;
	char *bytes; /* NULL: host_path is copied */
	size_t size;
	char *host_path;
	unsigned mode;
};

struct belljar_task {
	struct belljar_sandbox *sandbox;
	struct spec spec;
	struct err *image_error; /* why its image can not be used; NULL when it can */
	struct task_file *files;
	size_t n_files;
	char *capture_dir;
	char *input;
	size_t input_size;
	int input_fd; /* borrowed, -1 for none */
	bool executed;

	/* What other threads may use, under the lock. */
	pthread_mutex_t lock;
	int keeper_fd; /* -1 unless executing */
	int tty_fd;    /* -1 unless executing on a terminal */
	bool stopped;
};
