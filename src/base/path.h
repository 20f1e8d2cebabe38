/* Where the program keeps its state, decided in one place for every role:
 * server, keeper, clients and commands. No other file knows the defaults. */
#pragma once
#include <sys/types.h>

struct err;

/* Room that is left for names below the state directory. */
#define PATH_ROOT_MAX 2048u

/* What somebody wrote on a command line, seen from the current directory: a relative path
 * becomes an absolute one, without "." and ".." at its start; those behind a name stay, since
 * the name may be a link. An absolute or an empty one is copied. 0 with a text that the caller
 * must free(), or a negative errno. */
int path_absolute(const char *path, char **ret, struct err *err);

/* The state directory: `option` (from --root, may be NULL; see path_absolute()), else
 * $BELLJAR_ROOT, else /var/lib/belljar for root and
 * ${XDG_DATA_HOME:-~/.local/share}/belljar for others. It need not exist. Returns 0 with an
 * absolute path without doubled or trailing slashes that the caller must free(). -EINVAL for a
 * variable that is relative, and for a path that holds ".." or is the root of the file system;
 * -EPERM for one that exists and that somebody other than us or root could change. */
int path_state_root(const char *option, char **ret, struct err *err);

/* Make the directory `path` and its missing parents; new ones get `mode`, whatever
 * the umask is. 0, also when it was there, or a negative errno. */
int path_make_dirs(const char *path, mode_t mode, struct err *err);
