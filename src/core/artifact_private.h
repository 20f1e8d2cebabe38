/* For artifact.c and artifact_unpack.c: the names in a run's directory, and the index. */
#pragma once
#include <jansson.h>

struct err;

#define ARTIFACT_CAPTURE   "capture"
#define ARTIFACT_DIR       "artifacts"
#define ARTIFACT_DIR_NEW   "artifacts.tmp"
#define ARTIFACT_INDEX     "artifacts.json"
#define ARTIFACT_INDEX_NEW "artifacts.json.tmp"

/* ARTIFACT_FILES_MAX entries with long names; a longer one is not ours. */
#define ARTIFACT_INDEX_MAX (64u << 20)

/* The index: {"files":[...],"skipped":n,"cut_short":bool}. -ENOENT when there is none. */
int artifact_load(int run_dir_fd, json_t **ret, struct err *err);
