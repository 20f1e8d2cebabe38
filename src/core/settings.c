/* Where values come from, and which of several wins. */
#include "core/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/settings_table.h"

#define FILE_SIZE_MAX ((size_t)1 << 20)
#define CONFIG_NAME   "SANDBOX_CONFIG"
#define ROWS_MAX      128u

enum source {
	SOURCE_DEFAULT,
	SOURCE_FILE,
	SOURCE_ENVIRONMENT,
	SOURCE_OPTION,
};

/* The text that a row gets, and from where. */
struct found {
	enum source source;
	unsigned line; /* of the file */
	const char *text;
};

struct load {
	const char *file;
	bool file_is_open; /* everyone may read it */
	char *text;        /* its contents, cut into lines and words */
	size_t size;
	struct found found[ROWS_MAX];
};

/* "environment", "/etc/belljar.conf:3", "option" */
static const char *format_origin(
	const struct load *l, const struct found *f, char *buf, size_t size)
{
	static const char *const names[] = {
		[SOURCE_DEFAULT] = "default",
		[SOURCE_ENVIRONMENT] = "environment",
		[SOURCE_OPTION] = "option",
	};

	if (f->source == SOURCE_FILE)
		(void)snprintf(buf, size, "%.80s:%u", l->file, f->line);
	else
		(void)snprintf(buf, size, "%s", names[f->source]);
	return buf;
}

static int refuse_unknown(
	const struct load *l, const struct found *f, const char *name, struct err *err)
{
	const char *names[ROWS_MAX];
	char origin[128];
	const char *near = NULL;

	for (size_t i = 0; i < n_setting_rows; i++)
		names[i] = setting_rows[i].name;
	near = str_nearest(name, names, n_setting_rows);
	return err_set(err, -EINVAL, "%s: no setting is called %s%s%s%s",
		format_origin(l, f, origin, sizeof(origin)), quote(name).text,
		near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
}

static int find_row(const char *name, size_t size)
{
	for (size_t i = 0; i < n_setting_rows; i++) {
		if (strlen(setting_rows[i].name) == size &&
			strncmp(setting_rows[i].name, name, size) == 0)
			return (int)i;
	}
	return -ENOENT;
}

/* Take a value for the row `name`; what came before from a lesser source gives way. */
static int take(struct load *l, const char *name, size_t size, struct found f, struct err *err)
{
	int i = find_row(name, size);
	char word[80];

	(void)snprintf(word, sizeof(word), "%.*s", (int)(size < 79 ? size : 79), name);
	if (i < 0)
		return refuse_unknown(l, &f, word, err);
	const struct setting_row *row = &setting_rows[i];
	struct found *at = &l->found[i];
	if (f.source == SOURCE_FILE && at->source == SOURCE_FILE)
		return err_set(err, -EINVAL, "%.80s:%u: %s is set in line %u already", l->file,
			f.line, word, at->line);
	if (f.source == SOURCE_OPTION && row->kind == SETTING_SECRET)
		return err_set(err, -EINVAL,
			"%s (option): a secret on the command line is none, use the environment "
			"or the config file",
			word);
	if (f.source == SOURCE_FILE && row->kind == SETTING_SECRET && l->file_is_open)
		return err_set(err, -EINVAL,
			"%.80s:%u: %s is a secret and everyone may read this file, chmod o-r it",
			l->file, f.line, word);
	*at = f;
	return 0;
}

static char *trim(char *text)
{
	text += strspn(text, " \t\r");
	for (size_t n = strlen(text); n > 0 && strchr(" \t\r", text[n - 1]);)
		text[--n] = '\0';
	return text;
}

/* A value may stand in double quotes, as people are used to; they are no part of it. */
static char *unquote(char *text)
{
	size_t n = strlen(text);

	if (n < 2 || text[0] != '"' || text[n - 1] != '"')
		return text;
	text[n - 1] = '\0';
	return text + 1;
}

static int take_line(struct load *l, char *line, unsigned number, struct err *err)
{
	char *text = trim(line);
	char *equals = strchr(text, '=');

	if (!*text || *text == '#')
		return 0;
	/* The line is not repeated: it may be a secret that lacks its name. */
	if (!equals)
		return err_set(err, -EINVAL, "%.80s:%u: this is not NAME = value", l->file, number);
	*equals = '\0';
	char *name = trim(text);
	struct found f = { SOURCE_FILE, number, unquote(trim(equals + 1)) };
	return take(l, name, strlen(name), f, err);
}

static int take_text(struct load *l, struct err *err)
{
	char *text = l->text;
	unsigned number = 0;

	if (strlen(text) != l->size)
		return err_set(err, -EINVAL, "%.128s holds a NUL character", l->file);
	for (char *line; (line = strsep(&text, "\n"));) {
		int r = take_line(l, line, ++number, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_file(struct load *l, struct err *err)
{
	struct stat st;
	AUTO_FD fd = open(l->file, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "open the config file %.128s", l->file);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the config file %.128s is not a file", l->file);
	l->file_is_open = st.st_mode & S_IROTH;
	int r = fd_read_all(fd, FILE_SIZE_MAX, &l->text, &l->size);
	if (r < 0)
		return err_set(err, r, "read the config file %.128s: %s", l->file, strerror(-r));
	return take_text(l, err);
}

static int take_environment(struct load *l, struct err *err)
{
	for (char **e = environ; *e; e++) {
		const char *equals = strchr(*e, '=');

		if (!equals || !str_after(*e, "SANDBOX_") || str_after(*e, CONFIG_NAME "="))
			continue;
		size_t size = (size_t)(equals - *e);
		if (!equals[1] && find_row(*e, size) >= 0)
			continue;
		struct found f = { SOURCE_ENVIRONMENT, 0, equals + 1 };
		int r = take(l, *e, size, f, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_options(
	struct load *l, const struct setting_option *options, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct found f = { SOURCE_OPTION, 0, options[i].value };
		int r = take(l, options[i].name, strlen(options[i].name), f, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int set_rows(struct settings *c, const struct load *l, struct err *err)
{
	for (size_t i = 0; i < n_setting_rows; i++) {
		const struct setting_row *row = &setting_rows[i];
		const struct found *f = &l->found[i];
		const char *text = f->source == SOURCE_DEFAULT ? row->standard : f->text;
		struct err why = { 0 };
		char origin[128];

		/* A list that is not set is an empty one, other things stay zero. */
		if (!text && row->kind != SETTING_LIST)
			continue;
		if (setting_set(c, row, text ? text : "", &why) < 0)
			return err_set(err, -EINVAL, "%s (%s): %s", row->name,
				format_origin(l, f, origin, sizeof(origin)), why.text);
	}
	return 0;
}

/* A file may hold secrets. */
static void load_fini(struct load *l)
{
	if (l->text)
		explicit_bzero(l->text, l->size);
	free(l->text);
}

int settings_load(struct settings *c, const char *file, const struct setting_option *options,
	size_t n_options, struct err *err)
{
	CLEANUP(load_fini) struct load l = { .file = file };
	const char *named = getenv(CONFIG_NAME);
	int r = 0;

	*c = (struct settings){ 0 };
	if (!l.file && named && *named)
		l.file = named;
	if (l.file)
		r = take_file(&l, err);
	if (r == 0)
		r = take_environment(&l, err);
	if (r == 0)
		r = take_options(&l, options, n_options, err);
	if (r == 0)
		r = set_rows(c, &l, err);
	return r < 0 ? r : setting_check_all(c, err);
}

void settings_fini(struct settings *c)
{
	for (size_t i = 0; i < n_setting_rows; i++)
		setting_fini(c, &setting_rows[i]);
}
