#include "lang/lang.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NONE       ((const char *const[]){ NULL })
#define NEEDS(...) ((const struct lang_need[]){ __VA_ARGS__, { 0 } })

/* Starts /tmp/main, which was just compiled. No directory that a guest can write to has files
 * that can be executed, and the dynamic loader can not map them either, but a file in memory
 * can be: so it is copied there. perl does it, as it is on every Debian and knows system calls
 * by number: 319 and 279 are memfd_create, 1 is MFD_CLOEXEC. The program has nothing open that
 * is not its own, and the copy in /tmp is gone when it starts. */
#define START                                                                                      \
	"exec perl -MConfig -e '"                                                                  \
	"my ($name, $file, $bytes) = (\"main\", \"/tmp/main\");"                                   \
	"my $call = { x86_64 => 319, aarch64 => 279 }->{(split /-/, $Config{archname})[0]}"        \
	" or die \"compiled programs can not be started on $Config{archname}\\n\";"                \
	"my $fd = syscall($call, $name, 1);"                                                       \
	"$fd >= 0 and open(my $out, \">&=\", $fd) and open(my $in, \"<\", $file)"                  \
	" or die \"can not copy the program: $!\\n\";"                                             \
	"while (sysread($in, $bytes, 1 << 20)) {"                                                  \
	" (syswrite($out, $bytes) // -1) == length($bytes)"                                        \
	" or die \"can not copy the program: $!\\n\" }"                                            \
	"unlink $file;"                                                                            \
	"exec { \"/proc/self/fd/$fd\" } $name, @ARGV;"                                             \
	"die \"can not start the program: $!\\n\"' -- \"$@\""

/* Compile the first argument with `command` to /tmp/main, and start that with the others. What
 * the compiler says goes to stderr, and its exit status is that of the run. */
#define COMPILE(command) "source=$1; shift; " command " || exit; " START

/* bash where there is one, as small images have none; also when the guest is to have a PATH that
 * leads to neither. */
static const char start_shell[] = "command -v bash >/dev/null && exec bash \"$@\"; "
				  "[ -x /bin/bash ] && exec /bin/bash \"$@\"; "
				  "[ -x /bin/sh ] && exec /bin/sh \"$@\"; exec sh \"$@\"";

/* It sizes its heap by the machine, of which a box has a part: so it begins small and grows only
 * with what is in use. */
#define JAVA_OPTIONS(to)                                                                           \
	to "-XX:+UseSerialGC " to "-XX:-UsePerfData " to "-XX:ActiveProcessorCount=4 " to "-Xms16m"

/* Some start threads for each processor of the machine, which on a large one are more than a
 * box may have: they are told that there are four. */
const struct lang langs[] = {
	{
		.name = "python",
		.aliases = WORDS("python3", "py"),
		.source = "main.py",
		.argv = WORDS("python3", "/workspace/main.py"),
		/* Output is to be seen as it is made, also in a pipe. */
		.env = WORDS("PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"),
		.needs = NEEDS({ "python3", "python3" }),
	},
	{
		.name = "javascript",
		.aliases = WORDS("js", "node", "nodejs"),
		.source = "main.js",
		.argv = WORDS("node", "/workspace/main.js"),
		.env = NONE,
		.needs = NEEDS({ "node", "nodejs" }),
	},
	{
		.name = "shell",
		.aliases = WORDS("sh", "bash"),
		.source = "main.sh",
		.argv = WORDS("sh", "-c", start_shell, "sh", "/workspace/main.sh"),
		.env = NONE,
		.needs = NEEDS({ "sh", "dash" }),
	},
	{
		.name = "elixir",
		.aliases = WORDS("ex", "exs"),
		.source = "main.exs",
		.argv = WORDS("elixir", "/workspace/main.exs"),
		/* It would start several threads for each processor of the machine, which on a
		 * large one are more than a box may have. A dump would end up among the files. */
		.env = WORDS(
			"ELIXIR_ERL_OPTIONS=+S 2:2 +SDcpu 2:2 +SDio 2", "ERL_CRASH_DUMP_SECONDS=0"),
		.needs = NEEDS({ "elixir", "elixir" }, { "erl", "erlang-base" }),
	},
	{
		.name = "ruby",
		.aliases = WORDS("rb"),
		.source = "main.rb",
		.argv = WORDS("ruby", "/workspace/main.rb"),
		.env = NONE,
		.needs = NEEDS({ "ruby", "ruby" }),
	},
	{
		.name = "perl",
		.aliases = WORDS("pl"),
		.source = "main.pl",
		.argv = WORDS("perl", "/workspace/main.pl"),
		.env = NONE,
		.needs = NEEDS({ "perl", "perl" }),
	},
	{
		.name = "lua",
		.aliases = NONE,
		.source = "main.lua",
		.argv = WORDS("lua", "/workspace/main.lua"),
		.env = NONE,
		.needs = NEEDS({ "lua", "lua5.4" }),
	},
	{
		.name = "c",
		.aliases = NONE,
		.source = "main.c",
		.argv = WORDS("sh", "-c", COMPILE("cc -O2 -o /tmp/main \"$source\" -lm"), "sh",
			"/workspace/main.c"),
		.env = NONE,
		.needs = NEEDS({ "cc", "gcc" }, { "/usr/include/stdio.h", "libc6-dev" },
			{ "perl", "perl-base" }),
	},
	{
		.name = "go",
		.aliases = WORDS("golang"),
		.source = "main.go",
		/* Newer ones keep notes below the directory for settings: not among the files. They
		 * also have no libraries ready, and compile those too: what is under way, which
		 * is removed at the end, needs more room than /tmp has, and so do the results. */
		.argv = WORDS("sh", "-c",
			COMPILE("XDG_CONFIG_HOME=/tmp go build -o /tmp/main \"$source\"; "
				"status=$?; rm -rf /workspace/.go-cache; (exit $status)"),
			"sh", "/workspace/main.go"),
		.env = WORDS("GOCACHE=/workspace/.go-cache", "GOTMPDIR=/workspace",
			"GOPATH=/tmp/go", "GOTOOLCHAIN=local", "GOMAXPROCS=4"),
		.needs = NEEDS({ "go", "golang-go" }, { "perl", "perl-base" }),
	},
	{
		.name = "java",
		.aliases = NONE,
		.source = "Main.java",
		/* The class Main is started wherever in the file it is. Without one, java compiles
		 * the source itself and starts its first class. */
		.argv = WORDS("sh", "-c",
			"source=$1; shift; "
			"if grep -Eq '(class|record|enum|interface)[[:space:]]+Main' \"$source\"; then "
			"javac " JAVA_OPTIONS(
				"-J") " -J-XX:TieredStopAtLevel=1 -d /tmp/java \"$source\""
				      " || exit; "
				      "[ -e /tmp/java/Main.class ] && exec java " JAVA_OPTIONS(
					      "") " -cp /tmp/java Main \"$@\"; fi; "
						  "exec java " JAVA_OPTIONS(
							  "") " \"$source\" \"$@\"",
			"sh", "/workspace/Main.java"),
		.env = NONE,
		.needs = NEEDS({ "sh", "dash" }, { "grep", "grep" },
			{ "java", "default-jdk-headless" }, { "javac", "default-jdk-headless" }),
	},
	{ 0 },
};

const struct lang *lang_find(const char *name)
{
	for (const struct lang *l = langs; l->name; l++) {
		if (streq(l->name, name))
			return l;
		for (size_t i = 0; l->aliases[i]; i++) {
			if (streq(l->aliases[i], name))
				return l;
		}
	}
	return NULL;
}

const char *lang_nearest(const char *name)
{
	const char *names[64];
	size_t n = 0;

	for (const struct lang *l = langs; l->name; l++) {
		names[n++] = l->name;
		for (size_t i = 0; l->aliases[i]; i++)
			names[n++] = l->aliases[i];
	}
	return str_nearest(name, names, n);
}

void lang_list(char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (const struct lang *l = langs; l->name && used < size; l++) {
		const char *before = l == langs ? "" : l[1].name ? ", " : " and ";
		used += (size_t)snprintf(buf + used, size - used, "%s%s", before, l->name);
	}
}

/* --- is it here --- */

/* What of the host is in the root of a box, and where a guest's PATH looks for programs. */
static const char *const shown[] = { "/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/" };
static const char *const programs[] = { "/usr/local/bin", "/usr/bin", "/bin" };

/* A link that leads elsewhere, such as to /opt, leads nowhere in a box. */
static bool is_shown(const char *path, int mode)
{
	char real[PATH_MAX];

	if (access(path, mode) < 0 || !realpath(path, real))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		if (str_after(real, shown[i]))
			return true;
	}
	return false;
}

static bool find_program(const char *name, char *buf, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		int n = snprintf(buf, size, "%s/%s", programs[i], name);

		if (n > 0 && (size_t)n < size && is_shown(buf, X_OK))
			return true;
	}
	return false;
}

bool lang_find_program(const struct lang *l, char *buf, size_t size)
{
	return find_program(l->argv[0], buf, size);
}

const char *lang_program(const struct lang *l, const char *image, char *buf, size_t size)
{
	bool is_known = !image || streq(image, "host");

	return is_known && lang_find_program(l, buf, size) ? buf : l->argv[0];
}

static bool is_met(const struct lang_need *need)
{
	char path[256];

	if (need->name[0] == '/')
		return is_shown(need->name, R_OK);
	return find_program(need->name, path, sizeof(path));
}

int lang_check(const struct lang *l, struct err *err)
{
	for (const struct lang_need *need = l->needs; need->name; need++) {
		if (!is_met(need))
			return err_set(err, -ENOENT,
				"%s is known but not on this machine: no '%s' in /usr; install the "
				"Debian package %s",
				l->name, need->name, need->package);
	}
	return 0;
}
