#include "core/lister.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/utf8.h"
#include "ipc/cur.h"
#include "ipc/inventory.h"

#define FIRST_ROOM (16u << 10) /* most fit */

struct lister {
	uv_poll_t poll;
	int fd;
	uint8_t *data;
	size_t size, room;
	lister_done_cb *done;
	void *ctx;
};

static void on_closed(uv_handle_t *handle)
{
	struct lister *l = handle->data;

	close_fdp(&l->fd);
	free(l->data);
	free(l);
}

void lister_free(struct lister *l)
{
	if (!l || uv_is_closing((uv_handle_t *)&l->poll))
		return;
	(void)uv_poll_stop(&l->poll);
	uv_close((uv_handle_t *)&l->poll, on_closed);
}

static bool can_be_shown(const char *path)
{
	size_t tail = 0;

	return utf8_span(path, strlen(path), &tail) == strlen(path) && artifact_path_is_safe(path);
}

void lister_leave_out_unnamed(struct inventory *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		if (can_be_shown(list->at[i].path)) {
			list->at[n++] = list->at[i];
			continue;
		}
		free(list->at[i].path);
		list->n_unnamed++;
	}
	list->n = n;
}

static void finish(struct lister *l)
{
	lister_done_cb *done = l->done;
	void *ctx = l->ctx;
	struct inventory list = { 0 };
	struct cur c;

	cur_init(&c, l->data, l->size);
	int r = l->size == 0 ? -ENODATA : inventory_get(&list, &c);
	lister_leave_out_unnamed(&list);
	lister_free(l);
	done(ctx, r, &list);
	inventory_fini(&list);
}

/* One byte more than there may be, so that too much is seen as that. */
static bool has_room(struct lister *l)
{
	if (l->size < l->room)
		return true;
	size_t room = 2 * l->room < INVENTORY_SIZE_MAX + 1 ? 2 * l->room : INVENTORY_SIZE_MAX + 1;
	if (room <= l->room)
		return false;
	uint8_t *data = xcalloc(1, room);
	memcpy(data, l->data, l->size);
	free(l->data);
	l->data = data;
	l->room = room;
	return true;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct lister *l = poll->data;

	(void)status;
	(void)events;
	while (has_room(l)) {
		ssize_t n = read(l->fd, l->data + l->size, l->room - l->size);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0)
			break;
		l->size += (size_t)n;
	}
	finish(l);
}

struct lister *lister_start(uv_loop_t *loop, int pipe_fd, lister_done_cb *done, void *ctx)
{
	struct lister *l = xnew(struct lister);

	(void)fd_set_nonblock(pipe_fd, true);
	*l = (struct lister){ .fd = pipe_fd, .room = FIRST_ROOM, .done = done, .ctx = ctx };
	l->data = xcalloc(1, l->room);
	(void)uv_poll_init(loop, &l->poll, pipe_fd);
	l->poll.data = l;
	(void)uv_poll_start(&l->poll, UV_READABLE, on_poll);
	return l;
}
