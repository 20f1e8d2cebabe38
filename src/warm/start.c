/* How a stranger's interpreter becomes a template: this library is loaded before its own
 * (LD_PRELOAD) and has the C library call us instead of its main(). Everything else about it is
 * as it was: the same file, the same symbols, the same name. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "warm/template.h"

typedef int main_fn(int argc, char **argv, char **envp);
typedef int start_fn(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
	void (*rtld_fini)(void), void *stack_end);

static int template_instead(int argc, char **argv, char **envp)
{
	(void)envp;
	return argc == 2 ? template_main(argv[1]) : EXIT_FAILURE;
}

/* The C library's own name for it, which is what a program calls first of all. */
start_fn __libc_start_main; // NOLINT(bugprone-reserved-identifier)

// NOLINTNEXTLINE(readability-function-size): it takes what the C library says
__attribute__((visibility("default"))) int __libc_start_main(main_fn *main, int argc, char **argv,
	void (*init)(void), void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	void *found = dlsym(RTLD_NEXT, "__libc_start_main");
	start_fn *real;

	(void)main;
	if (!found)
		abort();
	*(void **)&real = found;
	return real(template_instead, argc, argv, init, fini, rtld_fini, stack_end);
}
