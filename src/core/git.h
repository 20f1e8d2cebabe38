/* Fetching a repository for a workspace: one commit of it, perhaps with a patch, as plain
 * files in a directory of the server's. This is done here, before the box is made, because the
 * box has no network. It blocks, for up to the limit, so it runs in a thread of the pool.
 *
 * Nothing of the repository is run: libgit2 knows no hooks, filters are off, submodules are
 * left out, and no configuration but the new repository's own is read. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define GIT_COMMIT_SIZE 64          /* hexadecimal digits, at most */
#define GIT_PATCH_MAX   (16u << 20) /* bytes */
#define GIT_OBJECTS_MAX (2u << 20)  /* in what is fetched */

struct git_request {
	const char *url;
	const char *ref;   /* a branch, a tag, "refs/...", or a whole commit id; NULL for HEAD */
	unsigned depth;    /* commits of history to fetch; 0 for all, see below */
	const char *patch; /* a unified diff, with or without git's headers, or NULL */
	size_t patch_size;
};

struct git_limits {
	char *const *allow; /* schemes, ended by NULL; "private": hosts in our own network too */
	uint64_t max_bytes; /* to receive, and again of files */
	uint64_t timeout_sec;
	const atomic_bool *stop; /* another thread wants it to end soon: -ECANCELED; or NULL */
};

/* Fetch into `into_dir`, which exists and is empty; on failure it may be left with anything,
 * and the caller removes it. What is there in the end are files, directories and symbolic links
 * that stay within; no ".git": its objects would count twice, and it could tell secrets.
 *
 * The depth saves only time, and only libgit2 since 1.7 can do it; an older one fetches the
 * whole history of the ref, and so does any from a file:// or a host that knows no depth.
 *
 * -EINVAL for a URL, ref or patch that is no good (the sentence says where the patch fails),
 * -EPERM for a scheme or host that is not allowed, -ENOENT for a ref that is not there,
 * -EACCES when the host wants a name and password, -EFBIG, -E2BIG and -ETIMEDOUT over a limit,
 * other codes for a host that fails. No sentence holds user, password or query of the URL. */
int git_fetch(const struct git_request *request, const struct git_limits *limits,
	const char *into_dir, char ret_commit[GIT_COMMIT_SIZE + 1], struct err *err);
