/* URLs in answers: paths of this server, with SANDBOX_PUBLIC_URL before them if that is set.
 * The caller frees what is returned. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct api;
struct exchange;
struct run_row;

/* Of a run's stream; signed when the settings say so. With a signature it carries the owner as
 * well ("u"), by which the files of a run that is over are found without asking the store. */
char *links_stream(const struct api *api, const struct run_row *row, uint64_t from_seq);

/* Of an artifact; the path is percent-encoded, its slashes are not. */
char *links_artifact(const struct api *api, const char *run_id, const char *path);

/* Of a file in a session's workspace, as GET /files/{id}/{path} serves it: a whole one, with
 * SANDBOX_PUBLIC_URL or else the name by which this request reached us; signed when the settings
 * say so. For a door without requests there is core/file_url.h. */
char *links_file(struct exchange *x, const char *session_id, const char *path);

/* The same of this request. */
char *links_here(struct exchange *x);

/* "http://127.0.0.1:8080", by the Host header of a request, or NULL for one that is no name. */
char *links_base(const char *host, bool is_tls);
