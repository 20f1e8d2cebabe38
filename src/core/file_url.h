/* URLs of the files of a session, for every door that gives one out: GET /files/{id}/{path} of
 * this server serves them. Pure, but for the clock that the caller reads. */
#pragma once
#include <stdint.h>

struct settings;

struct file_url_maker {
	const struct settings *settings;
	const char *secret; /* of signatures; NULL: none is made */
	/* "http://127.0.0.1:8080", where the client reaches us; NULL: not known. What
	 * SANDBOX_PUBLIC_URL says comes before it. Without either the URL is a path. */
	const char *base;
};

/* The URL of the file at `path`, relative to the workspace. Signed when the settings say so,
 * from `now_sec` for as long as they say. The caller frees it. */
char *file_url_make(
	const struct file_url_maker *m, const char *session_id, const char *path, uint64_t now_sec);
