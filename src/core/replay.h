/* After a restart: rows that the journal has and the store has not (journal.h). */
#pragma once

struct service;

/* `r` is 0 when the store has all of them, or what it failed with; then it is to be tried again. */
typedef void replay_cb(struct service *s, int r);

/* Calls `done`, at once or later, unless the service ends before. */
void replay_start(struct service *s, replay_cb *done);
