/* URLs of the files of a session, for every door that gives one out: GET /files/{id}/{path} of
 * this server serves them. Pure, but for the clock that the caller reads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct settings;

struct file_url_maker {
	const struct settings *settings;
	const char *secret; /* of signatures; NULL: none is made */
	/* "http://127.0.0.1:8080", where the client reaches us; NULL: not known. What
	 * SANDBOX_PUBLIC_URL says comes before it. Without either the URL is a path. */
	const char *base;
	/* The client came by the server's local socket. It has no key that it could fetch with, so
	 * its URLs are signed whatever the settings say. */
	bool is_local;
};

/* Are the URLs of this maker signed? A signed URL needs the id of a session, not its name. */
bool file_url_is_signed(const struct file_url_maker *m);

/* The URL of the file at `path`, relative to the workspace. If it is signed, it is good
 * from `now_sec` for as long as they say. The caller frees it. */
char *file_url_make(
	const struct file_url_maker *m, const char *session_id, const char *path, uint64_t now_sec);
