/* For tests of requests: from the text of one to what was made of it. */
#pragma once
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "core/problem.h"
#include "core/request.h"
#include "lib/test.h"

static inline void problem_finip(struct problem *p)
{
	problem_fini(p);
}

static inline void request_finip(struct request *r)
{
	request_fini(r);
}

#define PROBLEM(name) CLEANUP(problem_finip) struct problem name = { 0 }
#define REQUEST(name) CLEANUP(request_finip) struct request name = { 0 }

static inline int parse(
	const char *text, enum request_kind kind, struct request *r, struct problem *p)
{
	AUTO_JSON *json = NULL;
	struct err err = { 0 };

	if (json_read(text, strlen(text), &json, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return request_parse(json, kind, r, p);
}

/* A run with one more member. */
static inline const char *run_with(const char *member)
{
	static char text[1024];

	(void)snprintf(text, sizeof(text), "{\"base_image\":\"i\",\"command\":[\"x\"]%s%s}",
		*member ? "," : "", member);
	return text;
}
