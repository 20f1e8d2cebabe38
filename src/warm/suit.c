#include "warm/suit.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/guest.h"
#include "ipc/spec.h"
#include "warm/python.h"

/* Of a directory that are looked at. */
#define ENTRIES_MAX 4096u

/* Variables that are read before any program has a say: by Python, the C library, and libraries
 * that are commonly imported. One of these makes a run start its interpreter anew, unless it is
 * what the template has. */
static const char *const early_variables[] = { "PYTHON", "LD_", "LC_", "LANG", "LANGUAGE", "TZ",
	"MALLOC_", "GLIBC_", "GCONV_", "NLSPATH", "LOCPATH", "OPENBLAS", "GOTO_", "OMP_", "MKL_",
	"BLIS_", "NPY_", "NUMEXPR_", "MPL", "SSL_", "OPENSSL_", "ARROW_", "PANDAS_", "XDG_",
	"SETUPTOOLS_", "__PYVENV_LAUNCHER__" };

/* Set to anything else, Python takes them for a number. */
static const char *const adopted_variables[] = { "PYTHONUNBUFFERED=", "PYTHONUNBUFFERED=1",
	"PYTHONDONTWRITEBYTECODE=", "PYTHONDONTWRITEBYTECODE=1" };

static bool is_adopted(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(adopted_variables); i++) {
		if (streq(variable, adopted_variables[i]))
			return true;
	}
	return false;
}

static bool is_early(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(early_variables); i++) {
		if (str_after(variable, early_variables[i]))
			return !is_adopted(variable) && !streq(variable, "LANG=C.UTF-8");
	}
	return false;
}

static bool has_usual_environment(const struct spec *spec)
{
	const char *lang = guest_find_variable(spec, "LANG");

	for (size_t i = 0; spec->env[i]; i++) {
		if (is_early(spec->env[i]))
			return false;
	}
	return lang && streq(lang, "C.UTF-8");
}

/* Python looks for its user's own modules when it starts, and modules for their settings. */
static bool has_own_modules(const struct python *p, const struct spec *spec)
{
	const char *home = guest_find_variable(spec, "HOME");
	char path[PATH_MAX];

	if (!home || !streq(home, p->home))
		return true; /* without any, it may find another by the name of the user */
	int n = snprintf(
		path, sizeof(path), "%s/.local/lib/python3.%d/site-packages", home, p->minor);
	return n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) == 0;
}

/* By two bytes Python takes a file for compiled code, whatever it is called. */
static bool is_compiled(const struct python *p, int fd)
{
	uint8_t head[2];

	return fd_pread_full(fd, head, sizeof(head), 0) == sizeof(head) &&
	       (head[0] | head[1] << 8) == p->magic;
}

/* A file of text that ends in .py: Python looks into others for what they are, and also runs
 * archives. The end of one is in the last 64 KiB. */
static bool is_plain_source(const struct python *p, const char *path)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *dot = strrchr(path, '.');
	struct stat st;
	char tail[(64 << 10) + 22];

	if (fd < 0 || !dot || !streq(dot, ".py") || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	off_t from = st.st_size > (off_t)sizeof(tail) ? st.st_size - (off_t)sizeof(tail) : 0;
	ssize_t n = fd_pread_full(fd, tail, sizeof(tail), from);
	return n >= 0 && !memmem(tail, (size_t)n, "PK\5\6", 4) && !is_compiled(p, fd);
}

/* Some versions of Python shift such a program to the left. */
static bool is_indented(const char *text)
{
	const char *line = text + strspn(text, "\r\n");

	return *line == ' ' || *line == '\t';
}

static bool has_usual_arguments(const struct python *p, const struct spec *spec)
{
	char *const *argv = spec->argv;

	if (!argv[1])
		return false;
	if (streq(argv[1], "-c"))
		return argv[2] && !is_indented(argv[2]) && python_is_utf8(argv[2]);
	/* Versions differ in what "./main.py" is called in tracebacks. */
	return argv[1][0] != '-' && argv[1][0] != '.' && is_plain_source(p, argv[1]);
}

/* A program elsewhere that is the same file may be that of a virtual environment. */
static bool is_in_usual_place(const char *program)
{
	static const char *const places[] = { "/usr/bin/", "/bin/", "/usr/local/bin/",
		"/var/lib/belljar/bin/" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const char *name = str_after(program, places[i]);

		if (name && !strchr(name, '/'))
			return true;
	}
	return false;
}

/* Is this "name", "name.py" or "name.so", of a module that was imported? */
static bool is_imported(const struct python *p, const char *name)
{
	size_t size = strcspn(name, ".");

	for (size_t i = 0; p->imported[i]; i++) {
		if (strlen(p->imported[i]) == size && memcmp(p->imported[i], name, size) == 0)
			return true;
	}
	return false;
}

/* Modules that are beside the program come before those that were imported ahead. */
static bool has_modules_in_the_way(const struct python *p, const struct spec *spec)
{
	char path[PATH_MAX];
	struct dirent *entry = NULL;

	if (!p->imported[0])
		return false;
	if (streq(spec->argv[1], "-c"))
		(void)snprintf(path, sizeof(path), "%s", spec->cwd);
	else if (!realpath(spec->argv[1], path) || !strrchr(path, '/'))
		return true;
	else
		*strrchr(path, '/') = '\0';
	CLEANUP(fd_close_dirp) DIR *dir = opendir(path[0] ? path : "/");
	for (size_t n = 0; dir && (entry = readdir(dir)) && n < ENTRIES_MAX; n++) {
		if (is_imported(p, entry->d_name))
			return true;
	}
	return !dir || entry;
}

bool suit_is_clone_as_good(
	const struct python *p, const struct spec *spec, char *program, size_t size)
{
	struct stat st;

	return !spec->tty && has_usual_environment(spec) &&
	       guest_find_program(spec, program, size) && stat(program, &st) == 0 &&
	       st.st_dev == p->program.st_dev && st.st_ino == p->program.st_ino &&
	       is_in_usual_place(program) && has_usual_arguments(p, spec) &&
	       !has_own_modules(p, spec) && !has_modules_in_the_way(p, spec);
}
