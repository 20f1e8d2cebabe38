/* What a process's loop is doing, so that another thread can say it when the loop stands still.
 * The loop's thread sets it; any thread may ask. One for the process. */
#pragma once

/* Begin `what`, a text that stays. Returns what was being done before, for doing_end(). */
const char *doing_begin(const char *what);
void doing_end(const char *before);

/* NULL: nothing that somebody noted. */
const char *doing_what(void);
