/* What each of our programs has at its front. */
#pragma once

/* Who starts us without a stdin, stdout or stderr must not find that what we open
 * takes their place, and gets what was meant for them. */
void front_hold_descriptors(void);

/* One line on stderr: "belljar: ...". */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
