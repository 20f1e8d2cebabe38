/* What /proc says that a process was started with. A clone was started with nothing; it shows
 * what it stands for. */
#pragma once

/* Once in the template: where the kernel has things. Without it title_set() does nothing. */
void title_prepare(void);

/* Show these as the arguments and the environment of this process. */
void title_set(char *const *argv, char *const *env);
