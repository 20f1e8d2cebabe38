/* The keeper: the only privileged process. One thread, one epoll loop. It makes
 * boxes, holds their descriptors, enforces deadlines, reaps, and keeps each
 * result until somebody acknowledges it. It trusts nothing that a peer says. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct keeper_options {
	const char *root;         /* the state directory; NULL for the usual one */
	const char *profile;      /* a seccomp profile file; NULL for ours */
	uid_t uid;                /* who may connect, besides root to a keeper of root's */
	int listen_fd;            /* a listening socket to serve; -1: <root>/keeper.sock */
	int lifeline_fd;          /* end when the other end of this pipe does; -1: never */
	int trial_fd;             /* end when the other end of this socket is closed before it has
				     sent a byte; -1: never */
	bool ends_when_idle;      /* end when nobody needs it for a while, see keeper.c */
	uint64_t workspaces_ms;   /* that while, when it holds workspaces; 0: for ever */
	const void *warm_library; /* what makes an interpreter a template, see warm/template.h */
	size_t warm_library_size;
};

/* Serve until told to stop by SIGTERM or SIGINT, or until the lifeline
 * ends. 0, or a negative errno when it could not start. */
int keeper_serve(const struct keeper_options *options, struct err *err);
