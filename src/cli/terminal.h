/* The caller's terminal while a guest has it: raw, and restored in the end. */
#pragma once
#include <stdbool.h>

/* True when both stdin and stdout are a terminal, and it is ours to take: not that
 * of a shell in whose background we run. */
bool terminal_is_there(void);

/* Its size; 24 by 80 when it does not say. */
void terminal_size(unsigned *ret_rows, unsigned *ret_columns);

/* Hand every key to the guest. Undone by terminal_restore(), which may be called
 * at any time and any number of times. */
void terminal_make_raw(void);
void terminal_restore(void);
