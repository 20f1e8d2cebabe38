/* Code in a language, instead of a command: what a run that asks for it executes. */
#pragma once

struct problem;
struct request;
struct session;
struct settings;

/* Replace language, code and args of `r` by the command of that language, the code as a file of
 * the workspace, and the variables that the language wants. Without a session (NULL) and an image
 * it is the image "host". A request without code stays as it is. Returns 0, or -1 with a problem:
 * the language is not here, or another file has the name of the code's. */
int request_expand_code(struct request *r, const struct session *session, const struct settings *c,
	struct problem *problem);
