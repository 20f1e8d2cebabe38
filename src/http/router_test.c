#include "http/router.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

static const struct route first[] = {
	{ .method = "GET", .pattern = "/" },
	{ .method = "GET", .pattern = "/runs" },
	{ .method = "POST", .pattern = "/runs" },
	{ .method = "GET", .pattern = "/runs/{id}" },
	{ .method = "DELETE", .pattern = "/runs/{id}" },
	{ .method = "GET", .pattern = "/runs/{id}/artifacts/{path*}" },
	{ .method = "WS", .pattern = "/runs/{id}/stream" },
	{ 0 },
};

static const struct route second[] = {
	{ .method = "GET", .pattern = "/runs/latest" },
	{ .method = "GET", .pattern = "/both" },
	{ .method = "WS", .pattern = "/both" },
	{ .method = "GET", .pattern = "/{any*}" },
	{ 0 },
};

static const struct route *const tables[] = { first, NULL };
static const struct route *const more_tables[] = { first, second, NULL };

static struct router *make(const struct route *const *from)
{
	struct router *r = NULL;
	struct err err = { 0 };

	if (router_new(from, &r, &err) < 0)
		fail_msg("%s", err.text);
	return r;
}

static const struct {
	const char *method;
	const char *path;
	enum router_verdict verdict;
	const char *pattern;
	const char *params; /* raw, each with a ";" behind */
} cases[] = {
	{ "GET", "/", ROUTER_FOUND, "/", "" },
	{ "GET", "/runs", ROUTER_FOUND, "/runs", "" },
	{ "HEAD", "/runs", ROUTER_FOUND, "/runs", "" },
	{ "GET", "/runs/", ROUTER_NO_PATH, NULL, "" },
	{ "GET", "/runs/7", ROUTER_FOUND, "/runs/{id}", "7;" },
	{ "DELETE", "/runs/a%2Fb", ROUTER_FOUND, "/runs/{id}", "a%2Fb;" },
	{ "GET", "/runs/7/artifacts/a/b%20c", ROUTER_FOUND, "/runs/{id}/artifacts/{path*}",
		"7;a/b%20c;" },
	{ "GET", "/runs/7/artifacts/", ROUTER_FOUND, "/runs/{id}/artifacts/{path*}", "7;;" },
	{ "GET", "/runs/7/artifacts", ROUTER_NO_PATH, NULL, "" },
	{ "GET", "/runs//artifacts/x", ROUTER_NO_PATH, NULL, "" },
	{ "GET", "/runs/7/stream", ROUTER_UPGRADE, NULL, "" },
	{ "POST", "/runs/7/stream", ROUTER_NO_PATH, NULL, "" },
	{ "POST", "/runs/7", ROUTER_NO_METHOD, NULL, "" },
	{ "PUT", "/runs", ROUTER_NO_METHOD, NULL, "" },
	{ "GET", "/runs7", ROUTER_NO_PATH, NULL, "" },
	{ "GET", "/run", ROUTER_NO_PATH, NULL, "" },
	{ "GET", "//", ROUTER_NO_PATH, NULL, "" },
	{ "get", "/runs", ROUTER_NO_METHOD, NULL, "" },
};

static void format_params(const struct router_match *m, char *ret)
{
	*ret = '\0';
	for (size_t i = 0; i < m->n_params; i++) {
		(void)strncat(ret, m->params[i].raw, m->params[i].raw_size);
		(void)strncat(ret, ";", 1);
	}
}

TEST(each_path_goes_where_it_should)
{
	CLEANUP(router_freep) struct router *r = make(tables);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct router_match m;
		char params[100];

		print_message("%s %s\n", cases[i].method, cases[i].path);
		CHECK_EQ(router_find(r, cases[i].method, false, cases[i].path, &m),
			cases[i].verdict);
		if (cases[i].verdict != ROUTER_FOUND)
			continue;
		CHECK_STR(m.route->pattern, cases[i].pattern);
		format_params(&m, params);
		CHECK_STR(params, cases[i].params);
	}
}

TEST(the_methods_of_a_path_are_told)
{
	CLEANUP(router_freep) struct router *r = make(tables);
	struct router_match m;

	CHECK_EQ(router_find(r, "PUT", false, "/runs", &m), ROUTER_NO_METHOD);
	CHECK_STR(m.allow, "GET, HEAD, POST");
	CHECK_EQ(router_find(r, "PUT", false, "/runs/1", &m), ROUTER_NO_METHOD);
	CHECK_STR(m.allow, "DELETE, GET, HEAD");
}

TEST(what_is_literal_wins_whatever_the_order)
{
	CLEANUP(router_freep) struct router *r = make(more_tables);
	struct router_match m;

	CHECK_EQ(router_find(r, "GET", false, "/runs/latest", &m), ROUTER_FOUND);
	CHECK_STR(m.route->pattern, "/runs/latest");
	CHECK_EQ(m.n_params, 0);
	CHECK_EQ(router_find(r, "DELETE", false, "/runs/latest", &m), ROUTER_FOUND);
	CHECK_STR(m.route->pattern, "/runs/{id}");
	CHECK_EQ(router_find(r, "GET", false, "/some/thing", &m), ROUTER_FOUND);
	CHECK_STR(m.route->pattern, "/{any*}");
	CHECK_EQ(router_find(r, "GET", false, "/", &m), ROUTER_FOUND);
	CHECK_STR(m.route->pattern, "/");
}

TEST(an_upgrade_finds_the_websocket)
{
	CLEANUP(router_freep) struct router *r = make(more_tables);
	struct router_match m;

	CHECK_EQ(router_find(r, "GET", true, "/both", &m), ROUTER_FOUND);
	CHECK_STR(m.route->method, "WS");
	CHECK_EQ(router_find(r, "GET", false, "/both", &m), ROUTER_FOUND);
	CHECK_STR(m.route->method, "GET");
	/* An upgrade to something that has none is just a GET, as the client offered. */
	CHECK_EQ(router_find(r, "GET", true, "/runs/latest", &m), ROUTER_FOUND);
	CHECK_STR(m.route->pattern, "/runs/latest");
	CHECK_EQ(router_find(r, "GET", true, "/runs/5/stream", &m), ROUTER_FOUND);
	CHECK_STR(m.route->pattern, "/runs/{id}/stream");
}

static int try(const char *a, const char *b)
{
	const struct route rows[] = { { .method = "GET", .pattern = a },
		{ .method = b ? "GET" : NULL, .pattern = b }, { 0 } };
	const struct route *const list[] = { rows, NULL };
	CLEANUP(router_freep) struct router *r = NULL;
	struct err err = { 0 };

	return router_new(list, &r, &err);
}

TEST(patterns_are_checked)
{
	CHECK_EQ(try("/ok/{a}", NULL), 0);
	CHECK_EQ(try("no/slash", NULL), -EINVAL);
	CHECK_EQ(try("/{a*}/more", NULL), -EINVAL);
	CHECK_EQ(try("/x{a}", NULL), -EINVAL);
	CHECK_EQ(try("/{a}/{b}/{c}/{d}/{e}", NULL), -EINVAL);
	CHECK_EQ(try("/a/{b}", "/a/{c}"), -EINVAL);
	CHECK_EQ(try("/a/{b}", "/a/{c*}"), 0);
}

TESTS(UNIT(each_path_goes_where_it_should), UNIT(the_methods_of_a_path_are_told),
	UNIT(what_is_literal_wins_whatever_the_order), UNIT(an_upgrade_finds_the_websocket),
	UNIT(patterns_are_checked))
