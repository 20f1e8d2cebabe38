/* One pass over the lines. Hunks are counted through, because a line of one can look like a
 * header: "--- x" is what becomes of "-- x" when it is removed. */
#include "core/git_patch.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "ipc/pack.h"

/* A name in the form that stands between quotes, where a byte may need four. */
#define QUOTED_SIZE (4 * PACK_NAME_MAX + 1)

struct reader {
	const char *at;
	const char *end;
	size_t n_lines;  /* read */
	bool has_header; /* "diff --git" stands above, and its hunks are still to come */
	FILE *out;
	size_t n_written;
};

struct line {
	const char *at;
	size_t size; /* with its newline */
};

struct counts {
	uint64_t n_old;
	uint64_t n_new;
};

/* What "--- " or "+++ " says of a file. */
struct side {
	char name[QUOTED_SIZE];
	bool is_epoch; /* how `diff -N` dates a file that is not there */
};

static void put(struct reader *r, const char *data, size_t size)
{
	r->n_written += size;
	if (r->n_written <= GIT_PATCH_COMPLETE_MAX)
		(void)fwrite(data, 1, size, r->out);
}

static void put_text(struct reader *r, const char *text)
{
	put(r, text, strlen(text));
}

/* The line at `at`, which is empty at the end. */
static struct line line_at(const struct reader *r, const char *at)
{
	size_t left = (size_t)(r->end - at);
	const char *newline = left ? memchr(at, '\n', left) : NULL;

	return (struct line){ at, newline ? (size_t)(newline + 1 - at) : left };
}

static struct line line_after(const struct reader *r, struct line line)
{
	return line_at(r, line.at + line.size);
}

static struct line take_line(struct reader *r)
{
	struct line line = line_at(r, r->at);

	r->at += line.size;
	r->n_lines++;
	return line;
}

static bool begins(struct line line, const char *with)
{
	size_t n = strlen(with);

	return line.size >= n && memcmp(line.at, with, n) == 0;
}

/* --- hunks --- */

static bool read_number(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;
	uint64_t n = 0;

	for (; p < end && isdigit((unsigned char)*p) && n < UINT32_MAX; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	bool is_good = p > *at && (p == end || !isdigit((unsigned char)*p));
	*at = p;
	*ret = n;
	return is_good;
}

/* "-12,3", of which the second number is 1 if it is missing. */
static bool read_range(const char **at, const char *end, char mark, uint64_t *ret)
{
	uint64_t start = 0;

	if (*at == end || **at != mark)
		return false;
	++*at;
	if (!read_number(at, end, &start))
		return false;
	*ret = 1;
	if (*at == end || **at != ',')
		return true;
	++*at;
	return read_number(at, end, ret);
}

static bool read_counts(struct line line, struct counts *ret)
{
	const char *at = line.at + 3;
	const char *end = line.at + line.size;

	if (!begins(line, "@@ -") || !read_range(&at, end, '-', &ret->n_old))
		return false;
	while (at < end && *at == ' ')
		at++;
	return read_range(&at, end, '+', &ret->n_new) && end - at >= 3 && memcmp(at, " @@", 3) == 0;
}

/* Count the line off; false when it is no line of such a hunk. */
static bool count_line(struct line line, struct counts *left)
{
	char kind = line.size > 0 ? *line.at : '\0';
	/* Some editors take the blank from an empty line of context. */
	bool is_both = kind == ' ' || kind == '\n' || kind == '\r';
	bool is_old = is_both || kind == '-';
	bool is_new = is_both || kind == '+';

	if (!is_old && !is_new && kind != '\\')
		return false;
	if ((is_old && left->n_old == 0) || (is_new && left->n_new == 0))
		return false;
	left->n_old -= is_old;
	left->n_new -= is_new;
	return true;
}

/* Those that libgit2 understands anyway are left to it, with its own words for what is wrong. */
static int copy_hunks(struct reader *r, bool is_plain, struct err *err)
{
	struct counts left;

	while (read_counts(line_at(r, r->at), &left)) {
		struct line line = take_line(r);

		put(r, line.at, line.size);
		while (left.n_old > 0 || left.n_new > 0) {
			if (!count_line(line_at(r, r->at), &left))
				return is_plain ? err_set(err, -EINVAL,
							  "line %zu is no line of its hunk",
							  r->n_lines + 1)
						: 0;
			line = take_line(r);
			put(r, line.at, line.size);
		}
	}
	return 0;
}

/* --- headers --- */

static bool is_absent(const char *name)
{
	return streq(name, "/dev/null");
}

/* Append a byte in the form it has between quotes. */
static size_t quote(char c, char *ret)
{
	unsigned char byte = (unsigned char)c;

	if (byte < ' ' || byte == 0x7f)
		return (size_t)snprintf(ret, 5, "\\%03o", byte);
	if (c == '"' || c == '\\')
		return (size_t)snprintf(ret, 3, "\\%c", c);
	*ret = c;
	return 1;
}

/* Between quotes it has its form already. NULL when they do not close. */
static const char *read_quoted(const char *at, const char *end, char *ret)
{
	size_t n = 0;

	for (; at < end && *at != '"'; at++) {
		if (*at == '\\' && at + 1 < end)
			ret[n++] = *at++;
		ret[n++] = *at;
	}
	ret[n] = '\0';
	return at < end ? at + 1 : NULL;
}

static const char *read_plain(const char *at, const char *end, char *ret)
{
	size_t n = 0;

	for (; at < end && *at != '\t'; at++)
		n += quote(*at, ret + n);
	ret[n] = '\0';
	return at;
}

/* A name, then perhaps a tab and a date. */
static bool read_side(struct line line, struct side *ret)
{
	const char *at = line.at + 4;
	const char *end = line.at + line.size;

	while (end > at && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	const char *name_end = memchr(at, '\t', (size_t)(end - at));
	if ((name_end ? name_end : end) - at > PACK_NAME_MAX ||
		memchr(at, '\0', (size_t)(end - at)))
		return false;
	bool is_quoted = at < end && *at == '"';
	at = is_quoted ? read_quoted(at + 1, name_end ? name_end : end, ret->name)
		       : read_plain(at, end, ret->name);
	if (!at || !ret->name[0])
		return false;
	struct line date = { at + 1, at < end ? (size_t)(end - at - 1) : 0 };
	ret->is_epoch = begins(date, "1970-01-01") || begins(date, "1969-12-31");
	return true;
}

static bool is_marked(const char *name)
{
	return str_after(name, "a/") || str_after(name, "b/");
}

/* True when the first directory of the names is none of the repository's. */
static bool has_prefix(const char *old, const char *new)
{
	if (is_absent(old))
		return is_marked(new);
	if (is_absent(new))
		return is_marked(old);
	if (!strchr(old, '/') || !strchr(new, '/'))
		return false;
	return !streq(old, new) || is_marked(old);
}

/* The old name, as git does; the new one is better if the old is a copy's, such as "x.orig". */
static const char *choose_name(const char *old, const char *new)
{
	bool strips = has_prefix(old, new);

	if (is_absent(old))
		return strips ? strchr(new, '/') + 1 : new;
	if (strips)
		old = strchr(old, '/') + 1;
	if (is_absent(new))
		return old;
	if (strips)
		new = strchr(new, '/') + 1;
	return *new &&str_after(old, new) ? new : old;
}

static void put_side(struct reader *r, const char *mark, const char *prefix, const char *name)
{
	put_text(r, mark);
	if (name) {
		put_text(r, "\"");
		put_text(r, prefix);
		put_text(r, name);
		put_text(r, "\"\n");
	} else {
		put_text(r, "/dev/null\n");
	}
}

static void put_header(struct reader *r, const char *name, bool is_new, bool is_deleted)
{
	put_text(r, "diff --git \"a/");
	put_text(r, name);
	put_text(r, "\" \"b/");
	put_text(r, name);
	put_text(r, "\"\n");
	if (is_new)
		put_text(r, "new file mode 100644\n");
	if (is_deleted)
		put_text(r, "deleted file mode 100644\n");
	put_side(r, "--- ", "a/", is_new ? NULL : name);
	put_side(r, "+++ ", "b/", is_deleted ? NULL : name);
}

static int complete_file(struct reader *r, struct err *err)
{
	struct side old, new;
	struct counts counts = { 0 };
	bool is_good = read_side(take_line(r), &old) && read_side(take_line(r), &new);

	if (!is_good || (is_absent(old.name) && is_absent(new.name)))
		return err_set(err, -EINVAL, "line %zu names no file", r->n_lines);
	const char *name = choose_name(old.name, new.name);
	if (!read_counts(line_at(r, r->at), &counts))
		return err_set(err, -EINVAL, "line %zu is no head of a hunk", r->n_lines + 1);
	bool is_new = is_absent(old.name) || (old.is_epoch && counts.n_old == 0);
	bool is_deleted = is_absent(new.name) || (new.is_epoch &&counts.n_new == 0);
	put_header(r, name, is_new, is_deleted && !is_new);
	return copy_hunks(r, true, err);
}

/* --- all of it --- */

static bool is_plain_header(const struct reader *r)
{
	struct line old = line_at(r, r->at);
	struct line new = line_after(r, old);

	return !r->has_header && begins(old, "--- ") && begins(new, "+++ ") &&
	       begins(line_after(r, new), "@@ -");
}

static int complete_part(struct reader *r, struct err *err)
{
	if (is_plain_header(r))
		return complete_file(r, err);
	struct line line = take_line(r);

	put(r, line.at, line.size);
	if (begins(line, "diff --git "))
		r->has_header = true;
	if (!begins(line_at(r, r->at), "@@ -"))
		return 0;
	r->has_header = false;
	return copy_hunks(r, false, err);
}

int git_patch_complete(
	const char *patch, size_t size, char **ret, size_t *ret_size, struct err *err)
{
	struct reader r = { .at = patch, .end = patch + size };
	AUTO_FREE char *text = NULL;
	size_t n = 0;
	int result = 0;

	r.out = open_memstream(&text, &n);
	if (!r.out)
		return err_set(err, -ENOMEM, "no memory for the patch");
	while (r.at < r.end && result == 0 && r.n_written <= GIT_PATCH_COMPLETE_MAX)
		result = complete_part(&r, err);
	if (fclose(r.out) != 0 && result == 0)
		result = err_set(err, -ENOMEM, "no memory for the patch");
	if (result == 0 && r.n_written > GIT_PATCH_COMPLETE_MAX)
		result = err_set(err, -E2BIG, "its names are too long and too many");
	if (result < 0)
		return result;
	*ret = TAKE(text);
	*ret_size = n;
	return 0;
}
