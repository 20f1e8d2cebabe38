#include "cli/option.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/command.h"
#include "lib/test.h"

struct values {
	bool flag;
	const char *string;
	uint64_t bytes;
	uint64_t duration;
	uint64_t milli;
	uint64_t number;
	struct option_list list;
};

#define AT(field) offsetof(struct values, field)

static const struct option_row options[] = {
	{ "--flag", 'f', OPTION_FLAG, AT(flag), NULL, "a flag" },
	{ "--string", 's', OPTION_STRING, AT(string), "TEXT", "a string" },
	{ "--memory", 'm', OPTION_BYTES, AT(bytes), "SIZE", "a size" },
	{ "--timeout", 0, OPTION_DURATION, AT(duration), "TIME", "a time" },
	{ "--cpu", 0, OPTION_MILLI, AT(milli), "CORES", "a fraction" },
	{ "--number", 'n', OPTION_NUMBER, AT(number), "N", "a number" },
	{ "--env", 'e', OPTION_LIST, AT(list), "NAME=VALUE", "a list" },
	{ 0 },
};

static const struct command command = {
	.name = "try",
	.arguments = "[WORD]...",
	.summary = "Try options.",
	.description = "At length.",
	.options = options,
};

#define ARGV(...) ((char *[]){ (char *)"try", __VA_ARGS__, NULL })
#define W(text)   ((char *)(text))

static int count(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	return argc;
}

static int parse(char **argv, struct values *v, struct err *err)
{
	*v = (struct values){ .number = 77 };
	return option_parse(&command, count(argv), argv, v, err);
}

TEST(every_kind_of_value_is_set)
{
	struct values v;
	char **argv = ARGV(W("-f"), W("--string"), W("-x"), W("--memory=64K"), W("--timeout"),
		W("1.5s"), W("--cpu=0.25"), W("-n"), W("5"), W("rest"), W("--flag"));

	CHECK_EQ(parse(argv, &v, NULL), 10);
	CHECK(v.flag);
	CHECK_STR(v.string, "-x");
	CHECK_EQ(v.bytes, 65536);
	CHECK_EQ(v.duration, 1500);
	CHECK_EQ(v.milli, 250);
	CHECK_EQ(v.number, 5);
}

TEST(a_list_keeps_the_order)
{
	struct values v;

	CHECK_EQ(parse(ARGV(W("-e"), W("A=1"), W("--env=B=2"), W("-e=C")), &v, NULL), 5);
	CHECK_EQ(v.list.n, 3);
	CHECK_STR(v.list.values[0], "A=1");
	CHECK_STR(v.list.values[1], "B=2");
	CHECK_STR(v.list.values[2], "C");
	option_list_fini(&v.list);
	CHECK_EQ(v.list.n, 0);
}

TEST(options_end_where_the_words_begin)
{
	struct values v;

	CHECK_EQ(parse(ARGV(W("--"), W("--flag")), &v, NULL), 2);
	CHECK(!v.flag);
	CHECK_EQ(parse(ARGV(W("-"), W("--flag")), &v, NULL), 1);
	CHECK_EQ(parse(ARGV(W(""), W("--flag")), &v, NULL), 1);
	CHECK_EQ(parse(ARGV(NULL), &v, NULL), 1);
}

TEST(a_command_without_words_refuses_one)
{
	char **right = ARGV(W("-f"), W("--"));
	char **wrong = ARGV(W("-f"), W("more"), W("-x"));
	struct values v = { 0 };
	struct err err = { 0 };

	CHECK_EQ(option_parse_only(&command, count(right), right, &v, &err), 3);
	CHECK(v.flag);
	CHECK_EQ(option_parse_only(&command, count(wrong), wrong, &v, &err), -EINVAL);
	CHECK_STR(err.text, "unexpected argument 'more'");
}

/* Would a warning be seen? */
static bool is_warning_logged(void)
{
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	AUTO_FD saved = dup(STDERR_FILENO);
	char text[64];

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	CHECK(dup2(write_fd, STDERR_FILENO) == STDERR_FILENO);
	close_fdp(&write_fd);
	log_warn("a warning");
	CHECK(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
	return fd_read_full(read_fd, text, sizeof(text)) > 0;
}

TEST(a_log_level_is_set_by_name)
{
	struct err err = { 0 };

	CHECK_EQ(option_set_log_level("error", &err), 0);
	CHECK(!is_warning_logged());
	CHECK_EQ(option_set_log_level(NULL, &err), 0);
	CHECK(!is_warning_logged());
	CHECK_EQ(option_set_log_level("warn", &err), 0);
	CHECK(is_warning_logged());
	CHECK_EQ(option_set_log_level("loud", &err), -EINVAL);
	CHECK_STR(err.text, "unknown log level 'loud'");
	CHECK(is_warning_logged());
}

TEST(what_is_wrong_is_named)
{
	static const struct {
		const char *word;
		const char *text;
	} cases[] = {
		{ "--memroy=5", "unknown option --memroy, did you mean --memory?" },
		{ "--hepl", "unknown option --hepl, did you mean --help?" },
		{ "--frobnicate", "unknown option --frobnicate, see belljar try --help" },
		{ "-x", "unknown option -x, " },
		{ "-mx", "unknown option -mx, " },
		{ "---", "unknown option ---, " },
		{ "--flag=1", "option --flag takes no value" },
		{ "--memory", "option --memory needs a value" },
		{ "--memory=", "option --memory: '' is not a size such as 256M" },
		{ "--memory=5X", "option --memory: '5X' is not a size such as 256M" },
		{ "--memory=99999999T", "option --memory: '99999999T' is out of range" },
		{ "--timeout=soon", "option --timeout: 'soon' is not a time such as 20s" },
		{ "--cpu=1.x", "option --cpu: '1.x' is not a number such as 1.5" },
		{ "--number=-1", "option --number: '-1' is not a whole number" },
		{ "--number=9223372036854775808", "is out of range" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct values v;
		struct err err = { 0 };

		int r = parse(ARGV(W(cases[i].word)), &v, &err);
		CHECK(r == -EINVAL || r == -ERANGE);
		CHECK_EQ(err.code, r);
		CHECK_EQ(v.number, 77);
		if (!strstr(err.text, cases[i].text))
			fail_msg("'%s' and not '%s'", err.text, cases[i].text);
	}
}

TEST(a_list_has_an_end)
{
	static char *argv[2 * 4097 + 2] = { (char *)"try" };
	struct values v;
	struct err err = { 0 };

	for (size_t i = 1; i + 1 < ARRAY_SIZE(argv); i += 2) {
		argv[i] = W("-e");
		argv[i + 1] = W("x");
	}
	CHECK_EQ(parse(argv, &v, &err), -E2BIG);
	CHECK_STR(err.text, "option --env is given too often");
	CHECK_EQ(v.list.n, 4096);
	option_list_fini(&v.list);
}

/* All that stdout gets meanwhile. */
static void print_help(char *text, size_t size)
{
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	AUTO_FD saved = dup(STDOUT_FILENO);
	struct values v;

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	(void)fflush(stdout);
	CHECK(dup2(write_fd, STDOUT_FILENO) == STDOUT_FILENO);
	close_fdp(&write_fd);
	int r = parse(ARGV(W("-f"), W("--help"), W("--unknown")), &v, NULL);
	(void)fflush(stdout);
	CHECK(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
	CHECK_EQ(r, 0);
	ssize_t n = fd_read_full(read_fd, text, size - 1);
	CHECK(n > 0);
	text[n] = '\0';
}

TEST(help_lists_every_option)
{
	char text[4096];

	print_help(text, sizeof(text));
	CHECK(str_after(text, "Usage: belljar try [OPTION]... [WORD]...\n\nTry options.\n"));
	CHECK(strstr(text, "At length.") != NULL);
	CHECK(strstr(text, "  -m, --memory SIZE ") != NULL);
	CHECK(strstr(text, "      --timeout TIME ") != NULL);
	CHECK(strstr(text, "  -h, --help ") != NULL);
	for (const struct option_row *row = options; row->name; row++)
		CHECK(strstr(text, row->name) && strstr(text, row->help));
}

TESTS(UNIT(every_kind_of_value_is_set), UNIT(a_list_keeps_the_order),
	UNIT(options_end_where_the_words_begin), UNIT(a_command_without_words_refuses_one),
	UNIT(a_log_level_is_set_by_name), UNIT(what_is_wrong_is_named), UNIT(a_list_has_an_end),
	UNIT(help_lists_every_option))
