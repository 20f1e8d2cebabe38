/* Asking a Docker engine who it is, over its local socket. */
#pragma once
#include <stddef.h>

/* Longest that one engine may take to answer, and the most it may say. */
#define ENGINE_TIMEOUT_MS 400
#define ENGINE_ANSWER_MAX (64u << 10)

/* Ask the engine that DOCKER_HOST names, else the one at the usual sockets, for
 * its version. 0; -ENOENT when no socket is there or nobody listens; -EACCES;
 * -ETIMEDOUT; -EBADMSG when the answer is not that of an engine;
 * -EPROTONOSUPPORT when DOCKER_HOST is not a local socket. `where` is always set
 * to what was asked. */
int engine_ask(char *version, size_t version_size, char *where, size_t where_size);

/* The version in an HTTP answer to GET /version; 0 or -EBADMSG. */
int engine_parse(const char *answer, char *version, size_t size);
