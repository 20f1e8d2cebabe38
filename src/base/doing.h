/* The name of what the loop of this process is doing, so that another thread can report it when the
 * loop stands still. The thread of the loop sets the name; any thread may read it. A process has
 * one such name. */
#pragma once

/* Begin `what`, a text that stays. Returns what was being done before, for doing_end(). */
const char *doing_begin(const char *what);
void doing_end(const char *before);

/* NULL: nothing that somebody noted. */
const char *doing_what(void);
