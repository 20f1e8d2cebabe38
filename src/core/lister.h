/* Reads what a box says of its files (ipc/inventory.h) from a pipe, on the loop. Names that can not
 * be shown, or would be no path of an artifact, are left out and counted. */
#pragma once

typedef struct uv_loop_s uv_loop_t;
struct lister;
struct inventory;

/* `r` is 0; or -ENODATA when nothing was said, as by a box that was killed; or -EBADMSG. Then the
 * listing is empty. Who wants it takes what it holds. */
typedef void lister_done_cb(void *ctx, int r, struct inventory *listing);

/* Takes `pipe_fd`. `done` is called once, when the other side has closed it or said too much. */
struct lister *lister_start(uv_loop_t *loop, int pipe_fd, lister_done_cb *done, void *ctx);

/* Names that can not be shown leave a listing, and are counted in it. */
void lister_leave_out_unnamed(struct inventory *list);

/* Stop before that; nobody is told. NULL is fine. */
void lister_free(struct lister *l);
