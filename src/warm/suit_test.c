#include "warm/suit.h"

#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "ipc/spec.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "warm/python.h"

#define PYTHON    "/usr/bin/python3"
#define WORDS_MAX 8

/* A template asks its interpreter; there is none here, and the C library knows as well. */
bool python_is_utf8(const char *text)
{
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	locale_t before = uselocale(utf8);
	bool is_valid = mbstowcs(NULL, text, 0) != (size_t)-1;

	(void)uselocale(before);
	freelocale(utf8);
	return is_valid;
}

static char *no_imports[] = { NULL };

/* A run, as it is usual but for what a test changes. */
struct trial {
	struct python python;
	struct spec spec;
	char *argv[WORDS_MAX];
	char *env[WORDS_MAX];
	char program[PATH_MAX];
};

static void add(char **words, const char *word)
{
	size_t n = 0;

	while (words[n])
		n++;
	assert_true(n + 1 < WORDS_MAX);
	words[n] = (char *)word;
}

static void prepare(struct trial *t, const char *program, const char *first, const char *second)
{
	*t = (struct trial){ .python = { .minor = 11,
				     .magic = 0x0da7,
				     .home = "/nonexistent",
				     .imported = no_imports } };
	if (stat(PYTHON, &t->python.program) < 0)
		abort();
	t->spec.argv = t->argv;
	t->spec.env = t->env;
	t->spec.cwd = (char *)"/";
	add(t->argv, program);
	if (first)
		add(t->argv, first);
	if (second)
		add(t->argv, second);
	add(t->env, "PATH=/usr/bin:/bin");
	add(t->env, "HOME=/nonexistent");
	add(t->env, "LANG=C.UTF-8");
}

static bool suits(struct trial *t)
{
	return suit_is_clone_as_good(&t->python, &t->spec, t->program, sizeof(t->program));
}

static bool suits_command(const char *program, const char *first, const char *second)
{
	struct trial t;

	prepare(&t, program, first, second);
	return suits(&t);
}

static bool suits_code(const char *code)
{
	return suits_command(PYTHON, "-c", code);
}

static bool suits_variable(const char *variable)
{
	struct trial t;

	prepare(&t, PYTHON, "-c", "1");
	add(t.env, variable);
	return suits(&t);
}

TEST(what_is_usual_suits)
{
	struct trial t;

	prepare(&t, "python3", "-c", "print(1)");
	add(t.argv, "--any");
	CHECK(suits(&t));
	CHECK_STR(t.program, PYTHON);
	CHECK(suits_command(PYTHON, "-c", "print(1)"));
	CHECK(!suit_is_clone_as_good(&t.python, &t.spec, t.program, strlen(PYTHON)));
	CHECK(suit_is_clone_as_good(&t.python, &t.spec, t.program, strlen(PYTHON) + 1));
	t.spec.tty = true;
	CHECK(!suits(&t));
}

TEST(what_is_read_before_the_program_does_not)
{
	static const char *const early[] = { "PYTHONPATH=/x", "PYTHONHASHSEED=1",
		"PYTHONUNBUFFEREDLY=1", "PYTHONUNBUFFERED=0", "PYTHONUNBUFFERED=x",
		"PYTHONUNBUFFERED=10", "PYTHONDONTWRITEBYTECODE=0", "PYTHONUNBUFFERED",
		"LD_PRELOAD=x.so", "LC_ALL=C", "LANG=C", "LANG=C.UTF-8x", "LANGUAGE=de", "TZ=UTC",
		"MALLOC_ARENA_MAX=1", "GLIBC_TUNABLES=x", "GCONV_PATH=/x", "NLSPATH=x", "LOCPATH=x",
		"OPENBLAS_NUM_THREADS=1", "GOTO_NUM_THREADS=1", "OMP_NUM_THREADS=1",
		"MKL_NUM_THREADS=1", "BLIS_NUM_THREADS=1", "NPY_X=1", "NUMEXPR_MAX_THREADS=1",
		"MPLBACKEND=agg", "SSL_CERT_FILE=x", "OPENSSL_CONF=x", "ARROW_X=1", "PANDAS_X=1",
		"XDG_CONFIG_HOME=/x", "SETUPTOOLS_USE_DISTUTILS=stdlib", "__PYVENV_LAUNCHER__=/x" };
	static const char *const others[] = { "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONUNBUFFERED=", "PYTHONDONTWRITEBYTECODE=", "LANG=C.UTF-8", "PYTHO=1",
		"MY_LANG=C", "lang=C", "A" };

	for (size_t i = 0; i < ARRAY_SIZE(early); i++)
		CHECK(!suits_variable(early[i]));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		CHECK(suits_variable(others[i]));
}

TEST(without_the_locale_of_the_template_it_does_not)
{
	struct trial t;

	prepare(&t, PYTHON, "-c", "1");
	t.env[2] = NULL;
	CHECK(!suits(&t));
}

TEST(code_is_given_as_text_that_is_not_indented)
{
	CHECK(suits_code(""));
	CHECK(suits_code("\n\nprint('ä')"));
	CHECK(suits_code("if 1:\n  print(1)"));
	CHECK(!suits_code("print('\xff')"));
	CHECK(!suits_code("print('\xed\xa0\x80')")); /* half of a pair */
	CHECK(!suits_code(" print(1)"));
	CHECK(!suits_code("\r\n\tprint(1)"));
	CHECK(!suits_code(NULL));
}

TEST(options_and_streams_are_not_for_a_clone)
{
	static const char *const first[] = { "-", "-u", "-m", "-I", "-cprint(1)", "--version" };

	CHECK(!suits_command(PYTHON, NULL, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		CHECK(!suits_command(PYTHON, first[i], "this"));
}

static bool suits_file(const struct scratch *s, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", s->path, name);
	return suits_command(PYTHON, path, "argument");
}

TEST(a_file_is_plain_source_by_its_name)
{
	SCRATCH(s);

	scratch_write(s.fd, "main.py", "print(1)\n");
	scratch_write(s.fd, "empty.py", "");
	scratch_write(s.fd, "main.pyc", "print(1)\n");
	scratch_write(s.fd, "main", "print(1)\n");
	CHECK(mkdirat(s.fd, "tree.py", 0755) == 0);
	CHECK(mkfifoat(s.fd, "fifo.py", 0644) == 0);
	CHECK(symlinkat("main.py", s.fd, "link.py") == 0);
	CHECK(suits_file(&s, "main.py"));
	CHECK(suits_file(&s, "empty.py"));
	CHECK(suits_file(&s, "link.py"));
	CHECK(!suits_file(&s, "main.pyc"));
	CHECK(!suits_file(&s, "main"));
	CHECK(!suits_file(&s, "tree.py"));
	CHECK(!suits_file(&s, "fifo.py"));
	CHECK(!suits_file(&s, "nowhere.py"));
}

TEST(a_relative_file_may_not_begin_with_a_dot)
{
	SCRATCH(s);
	AUTO_FD here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	scratch_write(s.fd, "main.py", "print(1)\n");
	CHECK(fchdir(s.fd) == 0);
	bool plain = suits_command(PYTHON, "main.py", NULL);
	bool dotted = suits_command(PYTHON, "./main.py", NULL);
	CHECK(fchdir(here) == 0);
	CHECK(plain);
	CHECK(!dotted);
}

/* Python runs an archive, whatever it is called. It ends with a record that may be followed by a
 * comment of up to 64 KiB. */
TEST(an_archive_is_no_source)
{
	static char text[200 << 10];
	SCRATCH(s);

	scratch_write(s.fd, "short.py", "PK\5\6");
	CHECK(!suits_file(&s, "short.py"));
	memset(text, '#', sizeof(text) - 1);
	memcpy(text + sizeof(text) - 1 - (64 << 10) - 22, "PK\5\6", 4);
	scratch_write(s.fd, "long.py", text);
	CHECK(!suits_file(&s, "long.py"));
	memset(text, '#', sizeof(text) - 1);
	memcpy(text, "PK\5\6", 4);
	scratch_write(s.fd, "source.py", text);
	CHECK(suits_file(&s, "source.py"));
}

/* Python takes it for what it compiled, by two bytes. */
TEST(compiled_code_is_no_source)
{
	SCRATCH(s);

	scratch_write(s.fd, "compiled.py", "\xa7\r\r\n");
	CHECK(!suits_file(&s, "compiled.py"));
	scratch_write(s.fd, "other.py", "\xa7\n\r\n");
	CHECK(suits_file(&s, "other.py"));
	scratch_write(s.fd, "short.py", "\xa7");
	CHECK(suits_file(&s, "short.py"));
}

TEST(another_program_is_not_the_template)
{
	SCRATCH(s);
	char link[PATH_MAX];
	struct trial t;

	CHECK(!suits_command("/usr/bin/env", "-c", "1"));
	CHECK(!suits_command("/nowhere/python3", "-c", "1"));
	CHECK(!suits_command("nothing-of-that-name", "-c", "1"));
	/* The same file, in a place where it may be that of a virtual environment. */
	CHECK(symlinkat(PYTHON, s.fd, "python3") == 0);
	(void)snprintf(link, sizeof(link), "%s/python3", s.path);
	CHECK(!suits_command(link, "-c", "1"));
	CHECK(!suits_command("/usr/bin/../bin/python3", "-c", "1"));
	prepare(&t, PYTHON, "-c", "1");
	t.python.program.st_ino++;
	CHECK(!suits(&t));
	prepare(&t, PYTHON, "-c", "1");
	t.python.program.st_dev++;
	CHECK(!suits(&t));
}

static bool suits_home(const char *variable)
{
	struct trial t;

	prepare(&t, PYTHON, "-c", "1");
	t.env[1] = (char *)variable;
	t.python.home = str_after(variable, "HOME=");
	return suits(&t);
}

TEST(another_home_is_looked_into_by_a_new_one)
{
	struct trial t;

	prepare(&t, PYTHON, "-c", "1");
	t.env[1] = (char *)"HOME=/tmp";
	CHECK(!suits(&t));
	t.env[1] = (char *)"HOME=";
	CHECK(!suits(&t));
}

TEST(modules_of_the_user_are_found_by_a_new_one)
{
	static char far[PATH_MAX + 16] = "HOME=";
	SCRATCH(s);
	char home[PATH_MAX];

	(void)snprintf(home, sizeof(home), "HOME=%s", s.path);
	CHECK(suits_home(home));
	CHECK(suits_home("HOME="));
	CHECK(mkdirat(s.fd, ".local", 0755) == 0 && mkdirat(s.fd, ".local/lib", 0755) == 0);
	CHECK(mkdirat(s.fd, ".local/lib/python3.12", 0755) == 0);
	CHECK(mkdirat(s.fd, ".local/lib/python3.12/site-packages", 0755) == 0);
	CHECK(suits_home(home));
	CHECK(mkdirat(s.fd, ".local/lib/python3.11", 0755) == 0);
	CHECK(suits_home(home));
	CHECK(mkdirat(s.fd, ".local/lib/python3.11/site-packages", 0755) == 0);
	CHECK(!suits_home(home));
	CHECK(!suits_home("NO_HOME=1"));
	memset(far + 5, '/', PATH_MAX);
	CHECK(!suits_home(far));
}

static char *imports[] = { (char *)"queue", (char *)"numpy", NULL };

static bool suits_beside(const char *cwd, const char *first, const char *second)
{
	struct trial t;

	prepare(&t, PYTHON, first, second);
	t.python.imported = imports;
	t.spec.cwd = (char *)cwd;
	return suits(&t);
}

TEST(modules_in_the_way_of_imports_are_found_by_a_new_one)
{
	static const char *const others[] = { "queues.py", "que.py", "numpy_.py", "my.queue" };
	static const char *const same[] = { "queue.py", "queue", "numpy.cpython-311-x.so" };
	SCRATCH(s);

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		scratch_write(s.fd, others[i], "");
	CHECK(suits_beside(s.path, "-c", "1"));
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		scratch_write(s.fd, same[i], "");
		CHECK(!suits_beside(s.path, "-c", "1"));
		CHECK(unlinkat(s.fd, same[i], 0) == 0);
	}
	CHECK(suits_beside(s.path, "-c", "1"));
	CHECK(!suits_beside("/nowhere", "-c", "1")); /* nobody can tell */
}

TEST(the_way_of_a_file_is_where_it_really_is)
{
	SCRATCH(s);
	char file[PATH_MAX], link[PATH_MAX];

	CHECK(mkdirat(s.fd, "real", 0755) == 0 && mkdirat(s.fd, "links", 0755) == 0);
	scratch_write(s.fd, "real/main.py", "");
	CHECK(symlinkat("../real/main.py", s.fd, "links/main.py") == 0);
	(void)snprintf(file, sizeof(file), "%s/real/main.py", s.path);
	(void)snprintf(link, sizeof(link), "%s/links/main.py", s.path);
	scratch_write(s.fd, "queue.py", "");
	scratch_write(s.fd, "links/queue.py", "");
	CHECK(suits_beside(s.path, file, NULL));
	CHECK(suits_beside(s.path, link, NULL));
	scratch_write(s.fd, "real/queue.py", "");
	CHECK(!suits_beside("/", file, NULL));
	CHECK(!suits_beside("/", link, NULL));
}

TEST(without_imports_nothing_is_in_the_way)
{
	SCRATCH(s);
	struct trial t;

	scratch_write(s.fd, "queue.py", "");
	prepare(&t, PYTHON, "-c", "1");
	t.spec.cwd = s.path;
	CHECK(suits(&t));
}

TEST(too_many_files_are_not_looked_through)
{
	SCRATCH(s);
	char name[32];

	for (int i = 0; i < 4000; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		scratch_write(s.fd, name, "");
	}
	CHECK(suits_beside(s.path, "-c", "1"));
	for (int i = 4000; i < 4200; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		scratch_write(s.fd, name, "");
	}
	CHECK(!suits_beside(s.path, "-c", "1"));
}

TESTS(UNIT(what_is_usual_suits), UNIT(what_is_read_before_the_program_does_not),
	UNIT(without_the_locale_of_the_template_it_does_not),
	UNIT(code_is_given_as_text_that_is_not_indented),
	UNIT(options_and_streams_are_not_for_a_clone), UNIT(a_file_is_plain_source_by_its_name),
	UNIT(a_relative_file_may_not_begin_with_a_dot), UNIT(an_archive_is_no_source),
	UNIT(compiled_code_is_no_source), UNIT(another_program_is_not_the_template),
	UNIT(another_home_is_looked_into_by_a_new_one),
	UNIT(modules_of_the_user_are_found_by_a_new_one),
	UNIT(modules_in_the_way_of_imports_are_found_by_a_new_one),
	UNIT(the_way_of_a_file_is_where_it_really_is), UNIT(without_imports_nothing_is_in_the_way),
	UNIT(too_many_files_are_not_looked_through))
