/* What the server says about itself: runtimes, health, metrics, and its own description. The
 * table of routes is in meta.c. */
#pragma once

struct exchange;

void meta_handle_runtimes(struct exchange *x);

void meta_handle_health(struct exchange *x);
void meta_handle_health_public(struct exchange *x);
void meta_handle_alive(struct exchange *x);
void meta_handle_ready(struct exchange *x);
