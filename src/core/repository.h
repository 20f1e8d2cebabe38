/* Repositories for sessions and runs that begin with one: cloned on the server, in a thread, and
 * kept as the entries of a pack stream in a file of the server's, meta/git/<name>, until a box has
 * them. The box itself has no network. */
#pragma once
#include <jansson.h>

struct err;
struct pack_writer;
struct problem;
struct service;

/* Repositories that are cloned at the same time: each has a thread, for as long as its host
 * likes to take within the timeout. More are told to come back. */
#define REPOSITORY_FETCHES_MAX      12u
#define REPOSITORY_FETCHES_PER_USER 6u

/* Runs of one user that are not over and have a repository: each has a file of its size. */
#define REPOSITORY_RUNS_PER_USER 16u

typedef void repository_cb(void *ctx, struct problem *problem);

struct repository_order {
	const char *user_id; /* borrowed until `done`, like the others */
	const char *name;    /* of the file; an id */
	const json_t *git;   /* the request's object */
};

/* Clone. `done` has an empty problem when the file is there, else there is none. */
void repository_fetch(
	struct service *s, const struct repository_order *order, repository_cb *done, void *ctx);

/* -1 with a problem when the user has too many runs with a repository. */
int repository_check_runs(const struct service *s, const char *user_id, struct problem *problem);

/* The object of the request as it is kept and shown from now on: the URL without user, password
 * and query. A new object. */
json_t *repository_shown(const json_t *git);

/* In a thread: write the entries, without the end mark. -ENOENT when there is no such file. */
int repository_send(
	const struct service *s, const char *name, struct pack_writer *w, struct err *err);

/* Remove the file, in a thread; it may be missing. */
void repository_remove(struct service *s, const char *name);

/* After a restart, when the store's runs are known: remove the files of all others. */
void repository_clear(struct service *s);
