/* What /proc says that a process was started with. A clone was started with nothing; it shows
 * what it stands for. */
#pragma once

/* Once in the template: where the kernel has things. Without it title_set() does nothing. */
void title_prepare(void);

/* Show these as the arguments and the environment of this process, here and in what the C library
 * calls it, as if `program` had been executed. */
void title_set(const char *program, char *const *argv, char *const *env);
