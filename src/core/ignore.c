/* A pattern is compiled to a list of tokens, and a path is matched by following all places
 * in the list that are possible at once. So the time is at most tokens times characters,
 * whatever the pattern is. */
#include "core/ignore.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

enum token_kind {
	TOKEN_CHAR,
	TOKEN_ANY,   /* ?       one character, not a slash */
	TOKEN_STAR,  /* *       some of them */
	TOKEN_DEEP,  /* **      some characters of any kind */
	TOKEN_DIRS,  /* **_/    nothing, or characters up to a slash */
	TOKEN_CLASS, /* [...]   one of a set, not a slash */
};

struct token {
	enum token_kind kind;
	unsigned char c;
	uint8_t set[32]; /* of TOKEN_CLASS: one bit for each byte */
};

struct pattern {
	bool takes_back;
	size_t n_tokens;
	struct token *tokens;
};

struct ignore {
	size_t n_patterns;
	struct pattern *patterns;
	uint64_t work; /* steps done so far */
};

struct ignore *ignore_new(void)
{
	struct ignore *g = xnew(struct ignore);

	g->patterns = xcalloc(IGNORE_PATTERNS_MAX, sizeof(*g->patterns));
	return g;
}

void ignore_free(struct ignore *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_patterns; i++)
		free(g->patterns[i].tokens);
	free(g->patterns);
	free(g);
}

/* Drop blanks around it, slashes in front and behind, empty and "." parts, so that "./a//b/"
 * is "a/b". Returns the length, or a negative errno. */
static int clean(const char *text, char ret[IGNORE_PATTERN_MAX + 1], struct err *err)
{
	size_t n = 0;

	while (*text) {
		size_t part = strcspn(text, "/");

		if (part == 2 && memcmp(text, "..", 2) == 0)
			return err_set(err, -EINVAL, "a pattern may not hold '..'");
		bool is_empty = part == 0 || (part == 1 && *text == '.');
		if (!is_empty && n + part + 1 > IGNORE_PATTERN_MAX)
			return err_set(err, -E2BIG, "a pattern is longer than %u bytes",
				IGNORE_PATTERN_MAX);
		if (!is_empty) {
			if (n > 0)
				ret[n++] = '/';
			memcpy(ret + n, text, part);
			n += part;
		}
		text += part + (text[part] == '/');
	}
	ret[n] = '\0';
	return (int)n;
}

static void set_add(struct token *t, unsigned char low, unsigned char high)
{
	for (unsigned c = low; c <= high; c++)
		t->set[c / 8] |= (uint8_t)(1u << (c % 8));
}

static bool set_has(const struct token *t, unsigned char c)
{
	return t->set[c / 8] & (1u << (c % 8));
}

/* One end of a range; NULL when there is none. */
static const char *read_bound(const char *p, unsigned char *ret)
{
	if (*p == '\\')
		p++;
	else if (*p == ']' || *p == '-')
		return NULL;
	if (!*p || *p == '/')
		return NULL;
	*ret = (unsigned char)*p;
	return p + 1;
}

/* `p` is behind the "["; returns what is behind the "]", or NULL for a malformed set. */
static const char *read_class(const char *p, struct token *t)
{
	bool negated = *p == '^' || *p == '!';
	unsigned char low, high;

	t->kind = TOKEN_CLASS;
	p += negated;
	do {
		p = read_bound(p, &low);
		if (!p)
			return NULL;
		high = low;
		if (*p == '-')
			p = read_bound(p + 1, &high);
		if (!p || high < low)
			return NULL;
		set_add(t, low, high);
	} while (*p != ']');
	for (size_t i = 0; negated && i < sizeof(t->set); i++)
		t->set[i] = (uint8_t)~t->set[i];
	t->set['/' / 8] &= (uint8_t) ~(1u << ('/' % 8));
	return p + 1;
}

static const char *read_star(const char *p, struct token *t)
{
	t->kind = TOKEN_STAR;
	if (*p != '*')
		return p;
	t->kind = TOKEN_DEEP;
	while (*p == '*')
		p++;
	if (*p != '/')
		return p;
	t->kind = TOKEN_DIRS;
	return p + 1;
}

/* One token; returns what is behind it, or NULL for a malformed pattern. */
static const char *read_token(const char *p, struct token *t)
{
	unsigned char c = (unsigned char)*p++;

	if (c == '*')
		return read_star(p, t);
	if (c == '[')
		return read_class(p, t);
	if (c == '?') {
		t->kind = TOKEN_ANY;
		return p;
	}
	if (c == '\\')
		c = (unsigned char)*p++;
	t->kind = TOKEN_CHAR;
	t->c = c;
	return c ? p : NULL;
}

static int compile(const char *text, struct pattern *ret, struct err *err)
{
	AUTO_FREE struct token *tokens = xcalloc(strlen(text) + 1, sizeof(*tokens));
	size_t n = 0;

	for (const char *p = text; *p; n++) {
		p = read_token(p, &tokens[n]);
		if (!p)
			return err_set(err, -EINVAL, "the pattern '%.100s' is malformed", text);
	}
	ret->tokens = TAKE(tokens);
	ret->n_tokens = n;
	return 0;
}

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t\r");
}

int ignore_add(struct ignore *g, const char *pattern, struct err *err)
{
	char trimmed[IGNORE_PATTERN_MAX + 1];
	char text[IGNORE_PATTERN_MAX + 1];

	pattern = skip_blanks(pattern);
	if (!*pattern || *pattern == '#')
		return 0;
	bool takes_back = *pattern == '!';
	pattern = takes_back ? skip_blanks(pattern + 1) : pattern;
	size_t size = strlen(pattern);
	while (size > 0 && strchr(" \t\r", pattern[size - 1]))
		size--;
	if (size > IGNORE_PATTERN_MAX)
		return err_set(
			err, -E2BIG, "a pattern is longer than %u bytes", IGNORE_PATTERN_MAX);
	(void)snprintf(trimmed, sizeof(trimmed), "%.*s", (int)size, pattern);
	int n = clean(trimmed, text, err);
	if (n <= 0)
		return n;
	if (g->n_patterns >= IGNORE_PATTERNS_MAX)
		return err_set(err, -E2BIG, "more than %u patterns", IGNORE_PATTERNS_MAX);
	struct pattern *p = &g->patterns[g->n_patterns];
	p->takes_back = takes_back;
	int r = compile(text, p, err);
	if (r == 0)
		g->n_patterns++;
	return r;
}

static int add_line(struct ignore *g, const char *line, size_t size, struct err *err)
{
	char text[2 * IGNORE_PATTERN_MAX];

	if (memchr(line, '\0', size))
		return err_set(err, -EINVAL, "it holds a NUL");
	if (size > 0 && *line == '#')
		return 0; /* as long as it likes */
	if (size >= sizeof(text))
		return err_set(
			err, -E2BIG, "a pattern is longer than %u bytes", IGNORE_PATTERN_MAX);
	(void)snprintf(text, sizeof(text), "%.*s", (int)size, line);
	return ignore_add(g, text, err);
}

int ignore_add_text(struct ignore *g, const char *text, size_t size, struct err *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* some editors put it in front */
	const char *end = text + size;

	if (size >= 3 && memcmp(text, mark, 3) == 0)
		text += 3;
	for (unsigned number = 1; text < end; number++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		char where[32];

		stop = stop ? stop : end;
		int r = add_line(g, text, (size_t)(stop - text), err);
		(void)snprintf(where, sizeof(where), "line %u", number);
		if (r < 0)
			return err_wrap(err, r, where);
		text = stop + 1;
	}
	return 0;
}

/* The places in a pattern where its next character may be: at[i] is before token i. */
struct places {
	bool at[IGNORE_PATTERN_MAX + 1];
	size_t low, high; /* all that are set are within; low > high when there is none */
};

static void places_add(struct places *s, const struct pattern *p, size_t i)
{
	for (;; i++) {
		s->at[i] = true;
		s->low = i < s->low ? i : s->low;
		s->high = i > s->high ? i : s->high;
		if (i == p->n_tokens)
			return;
		enum token_kind kind = p->tokens[i].kind;
		if (kind != TOKEN_STAR && kind != TOKEN_DEEP && kind != TOKEN_DIRS)
			return;
	}
}

static void places_clear(struct places *s)
{
	if (s->low <= s->high)
		memset(s->at + s->low, 0, s->high - s->low + 1);
	s->low = SIZE_MAX;
	s->high = 0;
}

/* Where token `i` leads when `c` comes. TOKEN_DIRS may only be left after a slash, which is
 * why it, unlike the other two, is not simply passed by once something was taken. */
static void step(struct places *next, const struct pattern *p, size_t i, unsigned char c)
{
	const struct token *t = &p->tokens[i];

	switch (t->kind) {
	case TOKEN_CHAR:
		if (t->c == c)
			places_add(next, p, i + 1);
		break;
	case TOKEN_ANY:
		if (c != '/')
			places_add(next, p, i + 1);
		break;
	case TOKEN_CLASS:
		if (set_has(t, c))
			places_add(next, p, i + 1);
		break;
	case TOKEN_STAR:
		if (c != '/')
			places_add(next, p, i);
		break;
	case TOKEN_DEEP:
		places_add(next, p, i);
		break;
	case TOKEN_DIRS:
		if (c == '/') {
			places_add(next, p, i);
			break;
		}
		next->at[i] = true;
		next->low = i < next->low ? i : next->low;
		next->high = i > next->high ? i : next->high;
		break;
	}
}

/* True when the pattern matches the path or a directory above it. */
static bool pattern_match(const struct pattern *p, const char *path, uint64_t *work)
{
	struct places a = { .low = SIZE_MAX }, b = { .low = SIZE_MAX };
	struct places *now = &a, *next = &b;

	places_add(now, p, 0);
	for (; *path; path++) {
		for (size_t i = now->low; i <= now->high && i < p->n_tokens; i++) {
			if (now->at[i])
				step(next, p, i, (unsigned char)*path);
			++*work;
		}
		places_clear(now);
		struct places *other = now;
		now = next;
		next = other;
		if (now->low > now->high)
			return false;
		if (now->at[p->n_tokens] && (path[1] == '/' || !path[1]))
			return true;
	}
	return false;
}

int ignore_match(struct ignore *g, const char *path, struct err *err)
{
	/* From the last one, since that decides. */
	for (size_t i = g->n_patterns; i-- > 0;) {
		const struct pattern *p = &g->patterns[i];

		if (g->work > IGNORE_WORK_MAX)
			return err_set(err, -E2BIG, "the patterns to ignore take too much work");
		g->work += sizeof(struct places) / 64; /* what clearing costs */
		if (pattern_match(p, path, &g->work))
			return !p->takes_back;
	}
	return 0;
}
