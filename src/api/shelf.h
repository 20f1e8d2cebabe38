/* The artifacts of a run, looked at in a thread of the pool: reading them blocks. Each call
 * answers later, on the loop, exactly once. */
#pragma once
#include <jansson.h>

#include "core/artifact.h"

struct service;

/* [{"path","size","mime","sha256"}], sorted by path and never NULL unless r < 0; empty when
 * the run has none (any more). Taken by who is called. */
typedef void shelf_list_cb(void *ctx, int r, json_t *items);
void shelf_list(
	struct service *s, const char *user_id, const char *run_id, shelf_list_cb *done, void *ctx);

/* One of them. Its descriptor is taken by who is called, when r is 0. -ENOENT: there is none,
 * -EINVAL: the path is not safe. */
typedef void shelf_open_cb(void *ctx, int r, const struct artifact *artifact);
void shelf_open(struct service *s, const char *user_id, const char *run_id, const char *path,
	shelf_open_cb *done, void *ctx);
