#include "client/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/path.h"
#include "base/str.h"
#include "ipc/frame.h"
#include "ipc/spec.h"

_Static_assert((int)BELLJAR_FACET_COUNT == (int)FACET_COUNT, "the public list of facets is ours");

const char *belljar_version(void)
{
	return BELLJAR_VERSION;
}

const char *belljar_facet_name(enum belljar_facet facet)
{
	return (unsigned)facet < FACET_COUNT ? facet_name((enum facet)facet) : NULL;
}

int sandbox_report(struct belljar_error *error, const struct err *err, int code)
{
	if (error) {
		error->code = code;
		(void)snprintf(error->text, sizeof(error->text), "%s", err->text);
	}
	return code;
}

static const char *find_program(const struct belljar_options *options)
{
	const char *from_env = secure_getenv("BELLJAR_PROGRAM");

	if (options && options->program)
		return options->program;
	return from_env ? from_env : BELLJAR_INSTALLED_PROGRAM;
}

static int connect_once(struct belljar_sandbox *s, int *ret, struct err *err)
{
	return s->own.pid > 0 ? connection_open_own(&s->own, ret, err)
			      : connection_open_running(s->root, ret, err);
}

static bool is_alive(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 0; /* nothing to say, and nobody hung up */
}

/* One of a keeper that is still there: a service may have been restarted. */
static int take_idle(struct belljar_sandbox *s)
{
	int fd = -1;

	(void)pthread_mutex_lock(&s->lock);
	while (fd < 0 && s->n_idle > 0) {
		fd = s->idle[--s->n_idle];
		if (!is_alive(fd))
			close_fdp(&fd);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return fd;
}

int sandbox_take_connection(struct belljar_sandbox *s, uint8_t *buffer, int *ret, struct err *err)
{
	AUTO_FD fd = take_idle(s);
	uint64_t facets;

	if (fd < 0) {
		int r = connect_once(s, &fd, err);
		if (r == 0)
			r = connection_greet(fd, buffer, &facets, err);
		if (r < 0)
			return r;
	}
	*ret = take_fd(&fd);
	return 0;
}

void sandbox_give_connection(struct belljar_sandbox *s, int fd)
{
	(void)pthread_mutex_lock(&s->lock);
	bool kept = s->n_idle < IDLE_CONNECTIONS_MAX;
	if (kept)
		s->idle[s->n_idle++] = fd;
	(void)pthread_mutex_unlock(&s->lock);
	if (!kept)
		(void)close(fd);
}

/* Prove that the keeper answers, and keep what it said it enforces. */
static int try_keeper(struct belljar_sandbox *s, struct err *err)
{
	AUTO_FREE uint8_t *buffer = xcalloc(1, FRAME_SIZE_MAX);
	AUTO_FD fd = -1;
	int r = connect_once(s, &fd, err);

	if (r == 0)
		r = connection_greet(fd, buffer, &s->facets, err);
	if (r == 0)
		sandbox_give_connection(s, take_fd(&fd));
	return r;
}

/* A keeper that hangs up on us is as good as none: one that was just killed is still
 * connected to, for as long as a box that it was making. */
static int find_keeper(
	struct belljar_sandbox *s, const struct belljar_options *options, struct err *err)
{
	enum belljar_keeper wanted = options ? options->keeper : BELLJAR_KEEPER_ANY;

	if (wanted != BELLJAR_KEEPER_OWN) {
		int r = try_keeper(s, err);
		if (r == 0 || wanted == BELLJAR_KEEPER_RUNNING || r == -EPROTO || r == -EBADMSG)
			return r;
	}
	int r = connection_start_keeper(find_program(options), s->root, &s->own, err);
	return r < 0 ? r : try_keeper(s, err);
}

int belljar_open(const struct belljar_options *options, struct belljar_sandbox **ret,
	struct belljar_error *error)
{
	struct err err = { 0 };
	struct belljar_sandbox *s = xnew(struct belljar_sandbox);

	(void)pthread_mutex_init(&s->lock, NULL);
	s->own.lifeline_fd = -1;
	int r = path_state_root(options ? options->root : NULL, &s->root, &err);
	if (r == 0)
		r = find_keeper(s, options, &err);
	if (r < 0) {
		belljar_close(s);
		return sandbox_report(error, &err, r);
	}
	*ret = s;
	return 0;
}

void belljar_close(struct belljar_sandbox *sandbox)
{
	if (!sandbox)
		return;
	while (sandbox->n_idle > 0)
		(void)close(sandbox->idle[--sandbox->n_idle]);
	connection_stop_keeper(&sandbox->own);
	(void)pthread_mutex_destroy(&sandbox->lock);
	free(sandbox->root);
	free(sandbox);
}

uint64_t belljar_enforced(const struct belljar_sandbox *sandbox)
{
	return sandbox->facets;
}
