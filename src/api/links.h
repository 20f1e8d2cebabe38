/* URLs in answers: paths of this server, with SANDBOX_PUBLIC_URL before them if that is set.
 * The caller frees what is returned. */
#pragma once
#include <stdint.h>

struct api;
struct run_row;

/* Of a run's stream; signed when the settings say so. With a signature it carries the owner as
 * well ("u"), by which the files of a run that is over are found without asking the store. */
char *links_stream(const struct api *api, const struct run_row *row, uint64_t from_seq);

/* Of an artifact; the path is percent-encoded, its slashes are not. */
char *links_artifact(const struct api *api, const char *run_id, const char *path);
