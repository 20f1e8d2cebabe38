#include "http/router.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

struct entry {
	const struct route *route;
	size_t prefix_size; /* of the pattern that is literal */
};

struct router {
	size_t n;
	struct entry entries[];
};

/* What a part of a pattern is; the smaller goes first. */
enum part_kind {
	PART_END,
	PART_LITERAL,
	PART_NAME, /* {name} */
	PART_REST, /* {name*} */
};

struct part {
	enum part_kind kind;
	const char *text;
	size_t size;
};

/* Take the next part off `*at`, which stands on a slash or the end. */
static struct part next_part(const char **at)
{
	if (**at == '\0')
		return (struct part){ PART_END, *at, 0 };
	const char *text = *at + 1;
	size_t size = strcspn(text, "/");
	*at = text + size;
	if (size < 3 || text[0] != '{' || text[size - 1] != '}')
		return (struct part){ PART_LITERAL, text, size };
	if (text[size - 2] == '*')
		return (struct part){ PART_REST, text + 1, size - 3 };
	return (struct part){ PART_NAME, text + 1, size - 2 };
}

static int check_pattern(const struct route *route, struct err *err)
{
	const char *at = route->pattern;
	size_t n_names = 0;
	struct part part;

	if (*at != '/')
		return err_set(err, -EINVAL, "the pattern '%s' has no slash in front", at);
	while ((part = next_part(&at)).kind != PART_END) {
		n_names += part.kind != PART_LITERAL;
		if (part.kind == PART_LITERAL && memchr(part.text, '{', part.size))
			return err_set(
				err, -EINVAL, "the pattern '%s' is malformed", route->pattern);
		if (part.kind == PART_REST && *at != '\0')
			return err_set(
				err, -EINVAL, "in '%s' something follows the rest", route->pattern);
	}
	if (n_names > HTTP_PARAMS_MAX)
		return err_set(err, -EINVAL, "the pattern '%s' has too many names", route->pattern);
	return 0;
}

/* By how early a pattern is special; equal for those that fit the same paths. */
static int compare_patterns(const char *a, const char *b)
{
	for (;;) {
		struct part pa = next_part(&a);
		struct part pb = next_part(&b);

		if (pa.kind != pb.kind)
			return pa.kind < pb.kind ? -1 : 1;
		if (pa.kind == PART_END)
			return 0;
		if (pa.kind != PART_LITERAL)
			continue;
		size_t size = pa.size < pb.size ? pa.size : pb.size;
		int order = memcmp(pa.text, pb.text, size);
		if (order != 0 || pa.size != pb.size)
			return order != 0 ? order : pa.size < pb.size ? -1 : 1;
	}
}

static int compare_entries(const void *a, const void *b)
{
	const struct route *ra = ((const struct entry *)a)->route;
	const struct route *rb = ((const struct entry *)b)->route;
	int order = compare_patterns(ra->pattern, rb->pattern);

	return order != 0 ? order : strcmp(ra->method, rb->method);
}

static size_t count_routes(const struct route *const *tables)
{
	size_t n = 0;

	for (; *tables; tables++)
		for (const struct route *route = *tables; route->method; route++)
			n++;
	return n;
}

static int add_routes(struct router *r, const struct route *const *tables, struct err *err)
{
	for (; *tables; tables++) {
		for (const struct route *route = *tables; route->method; route++) {
			int bad = check_pattern(route, err);
			if (bad < 0)
				return bad;
			r->entries[r->n++] = (struct entry){ route, strcspn(route->pattern, "{") };
		}
	}
	qsort(r->entries, r->n, sizeof(r->entries[0]), compare_entries);
	for (size_t i = 1; i < r->n; i++)
		if (compare_entries(&r->entries[i - 1], &r->entries[i]) == 0)
			return err_set(err, -EINVAL, "%s %s is routed twice",
				r->entries[i].route->method, r->entries[i].route->pattern);
	return 0;
}

int router_new(const struct route *const *tables, struct router **ret, struct err *err)
{
	CLEANUP(router_freep)
	struct router *r = xcalloc(1, sizeof(*r) + count_routes(tables) * sizeof(struct entry));
	int bad = add_routes(r, tables, err);

	if (bad < 0)
		return bad;
	*ret = TAKE(r);
	return 0;
}

void router_free(struct router *r)
{
	free(r);
}

static bool fits(const char *pattern, const char *path, struct router_match *ret)
{
	size_t n = 0;

	for (;;) {
		struct part want = next_part(&pattern);

		if (want.kind == PART_END || *path == '\0') {
			ret->n_params = n;
			return want.kind == PART_END && *path == '\0';
		}
		size_t size = want.kind == PART_REST ? strlen(path + 1) : strcspn(path + 1, "/");
		if (want.kind == PART_LITERAL) {
			if (size != want.size || memcmp(path + 1, want.text, size) != 0)
				return false;
		} else if (want.kind == PART_NAME && size == 0) {
			return false;
		} else {
			ret->params[n++] =
				(struct router_param){ want.text, want.size, path + 1, size };
		}
		path += 1 + size;
	}
}

/* Collects the methods of a path, and whether it is for WebSockets. */
static void add_method(char *allow, const char *method)
{
	size_t n = strlen(allow);

	if (n + strlen(method) + sizeof(", , HEAD") > ROUTER_ALLOW_MAX)
		return;
	(void)snprintf(allow + n, ROUTER_ALLOW_MAX - n, "%s%s%s", n > 0 ? ", " : "", method,
		streq(method, "GET") ? ", HEAD" : "");
}

enum router_verdict router_find(const struct router *r, const char *method, bool is_upgrade,
	const char *path, struct router_match *ret)
{
	const char *serves = streq(method, "HEAD") ? "GET" : method;
	const struct route *plain = NULL;
	bool has_ws = false;
	struct router_match m;

	ret->allow[0] = '\0';
	for (size_t i = 0; i < r->n; i++) {
		const struct route *route = r->entries[i].route;

		if (strncmp(path, route->pattern, r->entries[i].prefix_size) != 0 ||
			!fits(route->pattern, path, &m))
			continue;
		bool is_ws = streq(route->method, "WS");
		has_ws |= is_ws;
		if (!is_ws)
			add_method(ret->allow, route->method);
		if (is_ws ? !is_upgrade || !streq(method, "GET")
			  : plain || !streq(route->method, serves))
			continue;
		memcpy(ret->params, m.params, sizeof(m.params));
		ret->n_params = m.n_params;
		ret->route = plain = route;
		if (is_ws || !is_upgrade)
			return ROUTER_FOUND;
	}
	if (plain)
		return ROUTER_FOUND;
	if (has_ws && streq(serves, "GET"))
		return ROUTER_UPGRADE;
	return ret->allow[0] ? ROUTER_NO_METHOD : ROUTER_NO_PATH;
}
