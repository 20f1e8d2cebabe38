/* URIs of files: "belljar://sess_1/out/plot%20a.png" is out/plot a.png of the session that its user
 * calls sess_1. */
#pragma once
#include <stddef.h>

#define RESOURCE_NAME_MAX 64u
#define RESOURCE_PATH_MAX 1024u

struct resource_uri {
	char session[RESOURCE_NAME_MAX + 1];
	char path[RESOURCE_PATH_MAX + 1]; /* safe, as artifact_path_is_safe() has it */
};

/* 0, or -EINVAL for what is no URI of ours. */
int resource_uri_parse(const char *uri, struct resource_uri *ret);
