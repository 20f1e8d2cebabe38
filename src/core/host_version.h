/* Which version of a program or distribution the host has, read from files that come with it;
 * nothing is executed. */
#pragma once
#include <stddef.h>

enum host_thing {
	HOST_PYTHON,
	HOST_NODE,
	HOST_GO,
	HOST_JAVA,
	HOST_DOTNET,
	HOST_BUSYBOX,
	HOST_DEBIAN,
	HOST_UBUNTU,
	HOST_ALPINE,
	HOST_THING_COUNT,
};

#define HOST_VERSION_SIZE 64

struct host_version {
	char number[HOST_VERSION_SIZE];   /* "3.11", as exact as the files tell; may be empty */
	char codename[HOST_VERSION_SIZE]; /* "bookworm", of a distribution; else empty */
};

/* `top` is the directory that holds the host's files: "" for the host itself. A program is the
 * one that a guest with the usual PATH finds. -ENOENT when the host has no such thing. */
int host_version_find(const char *top, enum host_thing thing, struct host_version *ret);
